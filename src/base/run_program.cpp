// Runs a program for a short while and reads what it prints. The program is the first of a process
// group of its own, so that what it starts is killed with it.

#include "strata/base/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <thread>

#include "strata/base/process.h"

namespace strata {

namespace {

constexpr std::size_t kMostText = 65536;

std::string reason(int error) { return std::generic_category().message(error); }

/// Starts the program with `out` as its standard output. Returns 0 or an error number.
int start(const std::vector<std::string>& arguments, int out, pid_t& child) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&child, argv[0], &files, &group, argv.data(), environ);
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

/// Reads until the other end is closed. Returns whether that was before `end_s`.
bool read_until(int in, double end_s, std::string& text) {
  std::array<char, 4096> piece{};
  while (true) {
    const double left_s = std::max(0.0, end_s - steady_seconds());
    pollfd wanted{.fd = in, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(1000 * left_s) + 1);
    if (ready == 0) return false;
    const ssize_t got = ready < 0 ? -1 : ::read(in, piece.data(), piece.size());
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return true;
    if (got > 0 && text.size() < kMostText) text.append(piece.data(), static_cast<size_t>(got));
    if (steady_seconds() > end_s) return false;
  }
}

/// Waits for the child's end. Returns whether that was before `end_s`.
bool ended(pid_t child, double end_s, int& status) {
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (steady_seconds() > end_s) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

ProgramAnswer run_program(const std::vector<std::string>& arguments, double limit_s) {
  const double end_s = steady_seconds() + limit_s;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {.text = "", .failure = reason(errno)};
  pid_t child = -1;
  const int error = start(arguments, pipe[1], child);
  ::close(pipe[1]);
  ProgramAnswer answer;
  if (error != 0) {
    answer.failure = reason(error);
  } else {
    int status = 0;
    if (!read_until(pipe[0], end_s, answer.text) || !ended(child, end_s, status)) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      answer.failure = "no answer within the time that it has";
    } else if (!WIFEXITED(status)) {
      answer.failure = "ended by signal " + std::to_string(WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
      answer.failure = "ended with code " + std::to_string(WEXITSTATUS(status));
    }
  }
  ::close(pipe[0]);
  return answer;
}

}  // namespace strata
