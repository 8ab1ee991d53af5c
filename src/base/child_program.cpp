// Runs a program and keeps the end of what it says. The program is the first of a process group of
// its own, so that what it starts is told to end with it. It is forked, not spawned, because only a
// child itself can ask to be told when its parent dies.

#include "strata/base/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <system_error>
#include <thread>

#include "strata/base/error.h"
#include "strata/base/process.h"

namespace strata {

namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;
/// How often somebody looks whether the program has to end.
constexpr int kLookEveryMs = 50;

[[noreturn]] void refuse_program(const std::string& program, int error) {
  throw Error(program + ": cannot be started: " + std::generic_category().message(error));
}

/// Two ends of a pipe, which are closed with it.
class Pipe {
 public:
  explicit Pipe(const std::string& program) {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) refuse_program(program, errno);
  }
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  [[nodiscard]] int in() const { return ends_[0]; }
  [[nodiscard]] int out() const { return ends_[1]; }
  void close_out() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// Becomes the program, in the child; calls only what is safe between fork and exec. If it cannot,
/// the error number goes to `failure`, which exec closes.
[[noreturn]] void become(char** argv, pid_t parent, int output, int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_DFL);  // a parent that ignores them passes that on
  }
  const int input = ::open("/dev/null", O_RDONLY);
  const bool alone = ::getppid() != parent;  // it died before it could have been noticed
  if (!alone && input >= 0 && ::dup2(input, STDIN_FILENO) >= 0 &&
      ::dup2(output, STDOUT_FILENO) >= 0 && ::dup2(output, STDERR_FILENO) >= 0) {
    ::execvp(argv[0], argv);
  }
  const int error = errno;
  static_cast<void>(!::write(failure, &error, sizeof error));
  ::_exit(127);
}

pid_t start_child(const std::vector<std::string>& arguments, Pipe& output) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Pipe failure(arguments[0]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) refuse_program(arguments[0], errno);
  if (child == 0) become(argv.data(), parent, output.out(), failure.out());
  output.close_out();
  failure.close_out();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(failure.in(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(child, nullptr, 0);
    refuse_program(arguments[0], error);
  }
  return child;
}

/// Appends what there is to read within a moment, and keeps the end. Returns false where the other
/// end is closed.
bool read_some(int in, std::string& text) {
  pollfd wanted{.fd = in, .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, kLookEveryMs) <= 0) return true;
  std::array<char, 4096> piece{};
  const ssize_t got = ::read(in, piece.data(), piece.size());
  if (got < 0) return errno == EINTR;
  if (got == 0) return false;
  text.append(piece.data(), static_cast<std::size_t>(got));
  if (text.size() > 2 * kMostBytes) text.erase(0, text.size() - kMostBytes);
  return true;
}

/// Tells a program to end when it is time, and kills it when that did not help.
class Reminder {
 public:
  Reminder(pid_t child, const ChildLimits& limits)
      : child_(child), limits_(limits), end_s_(steady_seconds() + limits.limit_s) {}

  void look() {
    const double now_s = steady_seconds();
    if (!told_s_ && (now_s > end_s_ || (limits_.stop && limits_.stop()))) {
      told_s_ = now_s;
      ::kill(-child_, SIGTERM);
    } else if (told_s_ && now_s > *told_s_ + limits_.grace_s) {
      ::kill(-child_, SIGKILL);
    }
  }
  [[nodiscard]] bool told() const { return told_s_.has_value(); }

 private:
  pid_t child_;
  const ChildLimits& limits_;
  double end_s_;
  std::optional<double> told_s_;
};

}  // namespace

ChildEnd run_child(const std::vector<std::string>& arguments, const ChildLimits& limits) {
  ChildEnd end;
  Pipe output(arguments[0]);
  const pid_t child = start_child(arguments, output);
  Reminder reminder(child, limits);
  int status = 0;
  bool open = true;
  // Something that the program started may hold its output open for longer than it lives.
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (open) {
      open = read_some(output.in(), end.output);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    reminder.look();
  }
  pollfd left{.fd = output.in(), .events = POLLIN, .revents = 0};
  while (open && ::poll(&left, 1, 0) > 0 && (left.revents & POLLIN) != 0) {
    open = read_some(output.in(), end.output);
  }
  if (end.output.size() > kMostBytes) end.output.erase(0, end.output.size() - kMostBytes);
  end.signalled = WIFSIGNALED(status);
  end.exit_code = end.signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  end.told = reminder.told();
  return end;
}

}  // namespace strata
