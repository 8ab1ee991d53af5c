// Writes a file under a temporary name and renames it when it is whole. The temporary name is new
// and random, and is opened with O_EXCL: no other process has it, and no link under it leads
// anywhere. A rename after fsync publishes the file, so readers see all of it or nothing.

#include "strata/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/temporary.h"
#include "strata/base/text.h"

namespace strata {

namespace {

[[noreturn]] void fail_to_make(const std::string& name, int error) {
  const std::string why = ": cannot be made: " + std::generic_category().message(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: throw IoError(name + why + ". Check its folder");
    case EACCES:
    case EPERM:
    case EROFS: throw IoError(name + why + ". Name a folder that this user can write");
    case ENAMETOOLONG:
      throw IoError(printable_name(shortened(name)) + why + ". Choose a shorter name");
    case ENOSPC:
    case EDQUOT: throw Error(name + why + ". Make room there, or name another place");
    default: throw IoError(name + why);
  }
}

/// Returns what a name leads to if no output may take its place, else nothing.
const char* irreplaceable(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISLNK(mode)) return "a symbolic link; name the file that it leads to";
  if (S_ISDIR(mode)) return "a folder; name a file in it";
  return "a pipe, socket or device; name a file";
}

}  // namespace

void require_replaceable(const std::string& name) {
  struct stat status {};
  if (::lstat(name.c_str(), &status) != 0) {
    if (errno != ENOENT) fail_to_make(name, errno);
  } else if (const char* what = irreplaceable(status.st_mode)) {
    throw IoError(name + ": is not replaced, since it is " + what);
  }
}

OutputFile::OutputFile(std::string name)
    : name_(std::move(name)), temporary_(name_beside(name_, "tmp").string()) {
  require_replaceable(name_);
  const int descriptor =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) fail_to_make(name_, errno);
  stream_ = ::fdopen(descriptor, "wb");
  if (stream_ != nullptr) return;
  const int error = errno;
  ::close(descriptor);
  ::unlink(temporary_.c_str());
  fail_to_make(name_, error);
}

OutputFile::~OutputFile() {
  if (stream_ != nullptr) std::fclose(stream_);
  if (!published_) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, stream_) != bytes) fail("written");
}

void OutputFile::rewind() {
  if (std::fseek(stream_, 0, SEEK_SET) != 0) fail("written");
}

void OutputFile::close() {
  if (std::fflush(stream_) != 0 || ::fsync(::fileno(stream_)) != 0) fail("written");
  if (std::fclose(std::exchange(stream_, nullptr)) != 0) fail("written");
}

void OutputFile::publish() {
  require_replaceable(name_);  // much may have happened since it was opened
  if (std::rename(temporary_.c_str(), name_.c_str()) != 0) fail("given its name");
  published_ = true;
}

void OutputFile::fail(const char* what) const {
  throw Error(name_ + ": cannot be " + what + ": " + std::generic_category().message(errno) +
              ". Make room there, or name another place; what was there before is still there");
}

void write_file(const std::string& name, std::string_view text) {
  OutputFile file(name);
  file.write(text.data(), text.size());
  file.close();
  file.publish();
}

}  // namespace strata
