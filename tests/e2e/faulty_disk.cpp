// Loaded into a program (LD_PRELOAD), it makes the disk slow or lets calls fail on one rank:
// - FAULT_PATH: calls on files whose path has this text are meant;
// - FAULT_CALL: "open" fails as if the file had gone, "pread" as if its sectors were bad;
// - FAULT_RANK: on this rank of mpirun or srun alone; FAULT_AFTER: but for so many calls;
// - SLOW_PREAD_MS, SLOW_PWRITE_MS: how long each such call takes longer.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_meant(const std::string& path) {
  static const std::string text = variable("FAULT_PATH");
  return !text.empty() && path.find(text) != std::string::npos;
}

bool is_meant(int descriptor) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 && is_meant(path.data());
}

/// Returns whether a call on a file that is meant fails.
bool fails(const char* call) {
  static std::atomic<long> calls{0};
  static const std::string wanted = variable("FAULT_CALL");
  static const std::string rank = variable("FAULT_RANK");
  static const long after = std::atol(variable("FAULT_AFTER").c_str());
  if (wanted != call || (!rank.empty() && rank != variable("PMIX_RANK"))) return false;
  return calls++ >= after;
}

void take_longer(const char* name) {
  usleep(static_cast<useconds_t>(1000 * std::atol(variable(name).c_str())));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (is_meant(path) && fails("open")) {
    errno = ENOENT;
    return -1;
  }
  return real<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  if (is_meant(descriptor)) {
    take_longer("SLOW_PREAD_MS");
    if (fails("pread")) {
      errno = EIO;
      return -1;
    }
  }
  return real<ssize_t (*)(int, void*, size_t, off_t)>("pread")(descriptor, to, bytes, offset);
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  if (is_meant(descriptor)) take_longer("SLOW_PWRITE_MS");
  return real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(descriptor, from, bytes,
                                                                      offset);
}

}  // extern "C"
