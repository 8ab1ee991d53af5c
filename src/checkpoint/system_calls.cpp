// Makes the system calls of SystemCalls.

#include "checkpoint/system_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace strata {

int SystemCalls::open(const char* path, int flags, mode_t mode) const {
  return ::open(path, flags, mode);
}

ssize_t SystemCalls::pwrite(int descriptor, const void* from, std::size_t bytes,
                            off_t offset) const {
  return ::pwrite(descriptor, from, bytes, offset);
}

ssize_t SystemCalls::pread(int descriptor, void* to, std::size_t bytes, off_t offset) const {
  return ::pread(descriptor, to, bytes, offset);
}

int SystemCalls::fallocate(int descriptor, off_t bytes) const {
  return ::fallocate(descriptor, 0, 0, bytes);
}

int SystemCalls::fsync(int descriptor) const { return ::fsync(descriptor); }

int SystemCalls::sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags) const {
  return ::sync_file_range(descriptor, offset, bytes, flags);
}

int SystemCalls::rename_to_new(const char* from, const char* to) const {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

int SystemCalls::close(int descriptor) const { return ::close(descriptor); }

}  // namespace strata
