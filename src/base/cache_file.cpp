// Finds the user's cache folder, and replaces files in it. The folder may be there already, or
// cannot be made: writing the file tells.

#include "strata/base/cache_file.h"

#include <cstdlib>
#include <system_error>

#include "strata/base/output_file.h"

namespace strata {

std::filesystem::path user_cache_folder() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const std::filesystem::path cache = folder("XDG_CACHE_HOME"); cache.is_absolute())
    return cache / "strata";
  if (const std::filesystem::path home = folder("HOME"); home.is_absolute())
    return home / ".cache/strata";
  return {};
}

void replace_cache_file(const std::filesystem::path& file, const std::string& text) {
  std::error_code seen_below;  // where the file cannot be made
  std::filesystem::create_directories(file.parent_path(), seen_below);
  write_file(file.string(), text);
}

}  // namespace strata
