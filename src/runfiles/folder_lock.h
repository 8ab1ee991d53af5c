// A lock on a run folder. It is the kernel's (flock), which ends with its process however that
// ends.
#pragma once

#include <filesystem>

#include "strata/runfiles/run_folder.h"

namespace strata {

class FolderLock {
 public:
  /// Locks `folder`, where a file `.lock` is made. Throws ConfigError, which says who has it, if
  /// another process does, and IoError if the folder cannot be written. A file system without locks
  /// costs a warning. Where another process has the lock, `wait` says to wait while that one is
  /// ending, and two seconds in any case: the kernel takes seconds to free the memory of a large
  /// process that was killed, and its lock goes after that. Null: nobody is waited for.
  FolderLock(const std::filesystem::path& folder, const FolderWait* wait);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace strata
