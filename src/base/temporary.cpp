// Makes temporary names, files and folders, and removes them. What is removed at the end is removed
// by descriptors (std::filesystem::remove_all), which follow no link that somebody puts in the
// place of a folder meanwhile.

#include "strata/base/temporary.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/hex.h"

namespace strata {

namespace {

/// Returns 16 digits that the kernel draws.
std::string random_digits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
    throw Error("the system gives no random number for the name of a temporary file: " +
                std::generic_category().message(errno));
  }
  return hex_digits(bits);
}

}  // namespace

std::filesystem::path name_beside(const std::filesystem::path& path, std::string_view what) {
  constexpr std::size_t kKept = 32;
  return path.parent_path() / ("." + path.filename().string().substr(0, kKept) + "." +
                               std::string(what) + random_digits());
}

std::filesystem::path temporary_name(std::string_view name) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (!error) return folder / name;
  throw IoError("no folder for temporary files: " + error.message() +
                "; set TMPDIR to one that can be written");
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& name)
    : path_(name.string() + "-" + random_digits()) {
  if (::mkdir(path_.c_str(), 0700) != 0) {
    throw IoError(path_.string() + ": cannot be made: " + std::generic_category().message(errno));
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace strata
