// Loaded into a program (LD_PRELOAD), it lets calls on files fail, send a signal, or wait:
// - FAULT_PATH: calls on files whose path has this text are meant; FAULT_RANK: on this rank of
//   mpirun or srun alone;
// - FAIL_CALL: "open" fails as if the file had gone, "pread" as if its sectors were bad and
//   "pwrite" as if the disk were full; FAIL_ERROR: by another number of the system's; FAIL_AFTER:
//   but for so many calls;
// - SIGNAL_CALL: the thread of this one "pread" or "pwrite" gets a signal in it, by the number
//   SIGNAL; SIGNAL_AFTER: after so many calls;
// - HOLD_CALL: "pread" or "pwrite" waits until there is the file HOLD_UNTIL (e2e/hold.h);
//   HOLD_AFTER: but for so many calls;
// - COUNT_CALL: how many such calls there were is written to the file COUNT_FILE at the end.
// Compilers that check the sizes of buffers (_FORTIFY_SOURCE, as Ubuntu's do unasked) call open and
// pread by other names; those are here too.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "e2e/hold.h"

namespace {

std::string variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

template <class Function>
Function next_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_meant_rank() {
  static const std::string rank = variable("FAULT_RANK");
  return rank.empty() || rank == variable("PMIX_RANK");
}

bool is_meant(const std::string& path) {
  static const std::string text = variable("FAULT_PATH");
  return is_meant_rank() && !text.empty() && path.find(text) != std::string::npos;
}

bool is_meant(int descriptor) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 && is_meant(path.data());
}

/// Counts the calls to which one of these things happens, whose variables begin with its name.
class Happening {
 public:
  explicit Happening(const std::string& name)
      : call_(variable(name + "_CALL")), after_(std::atol(variable(name + "_AFTER").c_str())) {}
  /// Returns the number of a call among those that it happens to, from 1 on, else 0 or less.
  long number(const char* call) { return call_ == call ? ++calls_ - after_ : 0; }
  [[nodiscard]] long calls() const { return calls_; }

 private:
  std::string call_;
  long after_;
  std::atomic<long> calls_{0};
};

Happening& failing() {
  static Happening happening("FAIL");
  return happening;
}

/// Returns the error number of a call that fails.
int failure(int usual) {
  const std::string error = variable("FAIL_ERROR");
  return error.empty() ? usual : std::atoi(error.c_str());
}

Happening& counted() {
  static Happening happening("COUNT");
  return happening;
}

/// Lets happen what is to happen before a call does anything.
void before(const char* call) {
  static Happening signalled("SIGNAL");
  static Happening held("HOLD");
  counted().number(call);
  if (signalled.number(call) == 1) raise(std::atoi(variable("SIGNAL").c_str()));
  if (held.number(call) >= 1) strata::test::hold(variable("HOLD_UNTIL"));
}

[[gnu::destructor]] void write_count() {
  const std::string file = is_meant_rank() ? variable("COUNT_FILE") : "";
  std::FILE* const out = file.empty() ? nullptr : std::fopen(file.c_str(), "w");
  if (out == nullptr) return;
  std::fprintf(out, "%ld\n", counted().calls());
  std::fclose(out);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (is_meant(path) && failing().number("open") >= 1) {
    errno = failure(ENOENT);
    return -1;
  }
  return next_function<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  if (is_meant(descriptor)) {
    before("pread");
    if (failing().number("pread") >= 1) {
      errno = failure(EIO);
      return -1;
    }
  }
  return next_function<ssize_t (*)(int, void*, size_t, off_t)>("pread")(descriptor, to, bytes,
                                                                        offset);
}

int fortified_open(const char* path, int flags) __asm__("__open_2");
int fortified_open(const char* path, int flags) { return open(path, flags); }

ssize_t fortified_pread(int descriptor, void* to, size_t bytes, off_t offset,
                        size_t room) __asm__("__pread_chk");
ssize_t fortified_pread(int descriptor, void* to, size_t bytes, off_t offset, size_t room) {
  if (bytes > room) std::abort();
  return pread(descriptor, to, bytes, offset);
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  if (is_meant(descriptor)) {
    before("pwrite");
    if (failing().number("pwrite") >= 1) {
      errno = failure(ENOSPC);
      return -1;
    }
  }
  return next_function<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(descriptor, from,
                                                                               bytes, offset);
}

}  // extern "C"
