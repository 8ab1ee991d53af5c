// Maps files through open, fstat and mmap. The descriptor is closed at once: the mapping keeps the
// file.

#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "strata/base/error.h"

namespace strata {

namespace {

[[noreturn]] void throw_errno(const std::string& file, const char* what) {
  throw IoError(file + ": " + what + " failed: " + std::generic_category().message(errno));
}

struct FileDescriptor {
  int value = -1;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& file) {
  const FileDescriptor fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (fd.value < 0) throw_errno(file, "open");
  struct stat status {};
  if (::fstat(fd.value, &status) != 0) throw_errno(file, "fstat");
  if (!S_ISREG(status.st_mode)) throw IoError(file + ": is not a regular file");
  bytes_ = static_cast<std::size_t>(status.st_size);
  if (bytes_ == 0) return;  // mmap refuses an empty range
  void* address = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd.value, 0);
  if (address == MAP_FAILED) throw_errno(file, "mmap");
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

}  // namespace strata
