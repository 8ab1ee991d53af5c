// The system calls that write and read a checkpoint's bytes, as an interface: a test puts short
// writes, interruptions, and disks and file systems that refuse in between, which no machine does
// on demand. Each function is the call of its name, with its result and errno.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "strata/checkpoint/files.h"

namespace strata {

class SystemCalls {
 public:
  SystemCalls() = default;
  virtual ~SystemCalls() = default;
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  virtual int open(const char* path, int flags, mode_t mode) const;
  virtual ssize_t pwrite(int descriptor, const void* from, std::size_t bytes, off_t offset) const;
  virtual ssize_t pread(int descriptor, void* to, std::size_t bytes, off_t offset) const;
  /// Gives the file room, and at least this length.
  virtual int fallocate(int descriptor, off_t bytes) const;
  virtual int fsync(int descriptor) const;
  virtual int sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags) const;
  /// renameat2 with RENAME_NOREPLACE.
  virtual int rename_to_new(const char* from, const char* to) const;
  virtual int close(int descriptor) const;
};

/// Returns the files of this machine by way of these calls.
[[nodiscard]] std::unique_ptr<Files> make_system_files(std::unique_ptr<const SystemCalls> calls);

}  // namespace strata
