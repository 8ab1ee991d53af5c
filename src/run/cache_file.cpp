// Caches of plans and rates are written through here. The folder may be there already, or cannot be
// made: writing the file tells.

#include "run/cache_file.h"

#include <system_error>

#include "strata/base/output_file.h"

namespace strata {

void replace_cache_file(const std::filesystem::path& file, const std::string& text) {
  std::error_code seen_below;  // where the file cannot be made
  std::filesystem::create_directories(file.parent_path(), seen_below);
  write_file(file.string(), text);
}

}  // namespace strata
