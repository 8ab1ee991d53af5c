// Ends a program that it is loaded into (LD_PRELOAD) by SIGKILL at the n-th call that changes
// something in a folder of checkpoints, as power cuts and batch systems do: KILL_AT_CALL says n. A
// write that is the n-th is half done. With KILL_COUNT_FILE it writes there how many there were.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool in_checkpoints(const char* path) { return std::strstr(path, "/checkpoints") != nullptr; }

bool in_checkpoints(int descriptor) {
  std::array<char, 4096> path{};
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 && in_checkpoints(path.data());
}

/// Counts a call; returns whether it is the one.
bool last() {
  static const char* const at = std::getenv("KILL_AT_CALL");
  const long call = ++calls;
  return at != nullptr && call == std::strtol(at, nullptr, 10);
}

void end() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

template <class Place>
void count(Place place) {
  if (in_checkpoints(place) && last()) end();
}

[[gnu::destructor]] void write_count() {
  const char* const file = std::getenv("KILL_COUNT_FILE");
  std::FILE* out = file == nullptr ? nullptr : std::fopen(file, "w");
  if (out == nullptr) return;
  std::fprintf(out, "%ld\n", calls.load());
  std::fclose(out);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_ACCMODE) != O_RDONLY) count(path);
  return real<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  const auto next = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  if (in_checkpoints(descriptor) && last()) {
    next(descriptor, from, bytes / 2, offset);
    end();
  }
  return next(descriptor, from, bytes, offset);
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (in_checkpoints(descriptor) && last()) {
    next(descriptor, from, bytes / 2);
    end();
  }
  return next(descriptor, from, bytes);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  count(descriptor);
  return real<int (*)(int, int, off_t, off_t)>("fallocate")(descriptor, mode, offset, bytes);
}

int fsync(int descriptor) {
  count(descriptor);
  return real<int (*)(int)>("fsync")(descriptor);
}

int mkdir(const char* path, mode_t mode) {
  count(path);
  return real<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int rename(const char* from, const char* to) {
  count(from);
  return real<int (*)(const char*, const char*)>("rename")(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  count(from);
  return real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2")(
      from_folder, from, to_folder, to, flags);
}

int remove(const char* path) {
  count(path);
  return real<int (*)(const char*)>("remove")(path);
}

}  // extern "C"
