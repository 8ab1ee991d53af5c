// Tells whether two paths lead to one file. The tokenizer compares its outputs with its inputs.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

namespace strata {

/// What a path leads to, whatever it is called: hard links have the same identity.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Returns what a path leads to, or nothing if nothing is there.
[[nodiscard]] inline std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace strata
