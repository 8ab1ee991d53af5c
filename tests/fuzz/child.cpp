// The parent learns of a child's end by the end of the pipe that takes its output. While it waits,
// it looks now and then at what /proc says of the child's time and memory.

#include "fuzz/child.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "strata/base/process.h"

namespace strata::fuzz {
namespace {

constexpr std::size_t kMostText = 1ul << 20;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string("fuzz: ") + what + " failed");
}

void limit(__rlimit_resource what, rlim_t most) {
  const rlimit value{most, most};
  setrlimit(what, &value);
}

[[noreturn]] void be_child(const Job& job, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU,
        static_cast<rlim_t>(job.limits.processor_s) + 600);  // the parent ends it before
  limit(RLIMIT_FSIZE, 256ul << 20);
  limit(RLIMIT_NPROC, 1024);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large meets an error, as on a full disk
  const int in = open("/dev/null", O_RDONLY);
  const int to = job.output.empty() ? out : open(job.output.c_str(), O_WRONLY);
  if (in < 0 || to < 0 || dup2(in, 0) < 0 || dup2(to, 1) < 0 || dup2(out, 2) < 0 ||
      chdir(job.folder.c_str()) != 0) {
    _exit(120);
  }
  std::exit(job.body());
}

/// What /proc says of a process: fields of a line, by their number from 0.
std::size_t proc_field(pid_t pid, const char* file, int number) {
  std::ifstream in("/proc/" + std::to_string(pid) + '/' + file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (const std::size_t name_end = text.rfind(')'); name_end != std::string::npos) {
    text.replace(0, name_end + 1, "0 0");  // the name of a process may hold spaces
  }
  std::istringstream fields(text);
  std::string field;
  for (int i = 0; i <= number; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

double processor_seconds(pid_t pid) {
  const std::size_t ticks = proc_field(pid, "stat", 13) + proc_field(pid, "stat", 14);
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Watches one child until it has ended.
class Watch {
 public:
  Watch(pid_t pid, int from, const Job& job) : pid_(pid), from_(from), job_(job) {}

  Ending wait() {
    while (read_some()) check_limits();
    close(from_);
    int status = 0;
    rusage used{};
    if (wait4(pid_, &status, 0, &used) != pid_) fail("wait4");
    ending_.wall_s = steady_seconds() - begin_s_;
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    ending_.processor_s = seconds(used.ru_utime) + seconds(used.ru_stime);
    ending_.peak_bytes = static_cast<std::size_t>(used.ru_maxrss) * 1024;
    if (ending_.kind != Ending::Kind::kExit) return ending_;
    const bool by_signal = WIFSIGNALED(status);
    ending_.code = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    if (by_signal && !(ending_.stopped && ending_.code == SIGTERM)) {
      ending_.kind = Ending::Kind::kSignal;
    }
    return ending_;
  }

 private:
  /// Waits a moment for text; false: the child has closed its output.
  bool read_some() {
    pollfd ready{from_, POLLIN, 0};
    const int count = poll(&ready, 1, 20);
    if (count < 0) fail("poll");
    if (count == 0) return true;
    std::array<char, 1 << 16> piece;
    const ssize_t bytes = read(from_, piece.data(), piece.size());
    if (bytes <= 0) return false;
    const std::size_t room = kMostText - ending_.text.size();
    ending_.text.append(piece.data(), std::min(room, static_cast<std::size_t>(bytes)));
    return true;
  }
  void check_limits() {
    const double now_s = steady_seconds();
    if (now_s - checked_s_ < 0.02) return;
    checked_s_ = now_s;
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (proc_field(pid_, "statm", 1) * page > job_.limits.resident_bytes) {
      end(Ending::Kind::kMemory);
    }
    const double used_s = processor_seconds(pid_);
    if (!ending_.stopped && used_s > job_.limits.training_s && job_.training && job_.training()) {
      ending_.stopped = true;
      stopped_s_ = used_s;
      allowed_s_ = used_s + job_.limits.processor_s;
      kill(pid_, SIGTERM);
    }
    // A step may be long. A signal that comes again ends the run at once.
    constexpr double kPatience = 2;
    if (ending_.stopped && used_s - stopped_s_ > kPatience) {
      stopped_s_ = used_s;
      ending_.cut = true;
      kill(pid_, SIGTERM);
    }
    if (used_s > used_s_) worked_s_ = now_s;
    used_s_ = used_s;
    const bool idle = now_s - worked_s_ > job_.limits.idle_s;
    if (idle || used_s > allowed_s_ || now_s - begin_s_ > job_.limits.wall_s) {
      end(Ending::Kind::kHang);
    }
  }
  void end(Ending::Kind kind) {
    if (ending_.kind == Ending::Kind::kExit) ending_.kind = kind;
    kill(pid_, SIGKILL);
  }

  pid_t pid_;
  int from_;
  const Job& job_;
  Ending ending_;
  double begin_s_ = steady_seconds();
  double checked_s_ = begin_s_;
  double stopped_s_ = 0;        ///< what it had used when it was told to end last
  double used_s_ = 0;           ///< of the processor, when it was looked at last
  double worked_s_ = begin_s_;  ///< when that was last seen to grow
  double allowed_s_ = job_.limits.processor_s;
};

}  // namespace

Ending run_child(const Job& job) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) be_child(job, ends[1]);
  close(ends[1]);
  return Watch(pid, ends[0], job).wait();
}

void drop_privileges() {
  if (geteuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) {
    fail("giving up root");
  }
  prctl(PR_SET_DUMPABLE, 1);  // /proc/self and the leak checker need it
}

}  // namespace strata::fuzz
