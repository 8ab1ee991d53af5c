// The text goes to a file of this process beside the old one, which it then replaces.

#include "run/cache_file.h"

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "strata/base/error.h"

namespace strata {

namespace fs = std::filesystem;

void replace_cache_file(const fs::path& file, const std::string& text) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const fs::path unfinished = file.string() + "." + std::to_string(::getpid()) + ".tmp";
  std::ofstream out(unfinished, std::ios::binary);
  out << text;
  out.close();
  const bool written = out.good();
  if (written) fs::rename(unfinished, file, failed);
  if (written && !failed) return;
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  throw IoError(file.string() + ": cannot be written" + (failed ? ": " + failed.message() : ""));
}

}  // namespace strata
