// The lock on a run folder: the kernel's (flock), which ends with its process however that ends.
#pragma once

#include <filesystem>

namespace strata {

class FolderLock {
 public:
  /// What to do where another process has the lock.
  enum class Busy : bool {
    kRefuse,
    /// Wait while that process is ending, and two seconds in any case: the kernel takes seconds to
    /// free the memory of a large process that was killed, and its lock goes after that.
    kWaitForEnd,
  };

  /// Locks `folder`, where a file `.lock` is made. Throws ConfigError, which says who has it, if
  /// another process does, and IoError if the folder cannot be written. A file system without locks
  /// costs a warning.
  FolderLock(const std::filesystem::path& folder, Busy busy);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace strata
