// The child leads a process group of its own, so that nothing of it outlives a kill.

#include "doctor/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>

#include "strata/base/error.h"
#include "strata/base/process.h"

namespace strata {

namespace {

/// Beginnings of the variables by which launchers tell a process that it is a rank.
constexpr std::array<std::string_view, 6> kLauncherVariables{"OMPI_", "PMIX_", "PMI_",
                                                             "PRTE_", "MPI_",  "SLURM_"};

bool of_launcher(std::string_view variable) {
  return std::ranges::any_of(kLauncherVariables,
                             [&](std::string_view begin) { return variable.starts_with(begin); });
}

std::vector<char*> environment_of_one() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!of_launcher(*variable)) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::filesystem::path& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> environment = environment_of_one();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(&child_, argv[0], &files, &group, argv.data(), environment.data());
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return;
  child_ = -1;
  throw IoError(arguments.front() +
                ": cannot be started: " + std::generic_category().message(error));
}

ChildProcess::~ChildProcess() { kill(); }

bool ChildProcess::ended() {
  reap(WNOHANG);
  return child_ == -1;
}

void ChildProcess::kill() {
  if (ended()) return;
  ::kill(-child_, SIGKILL);
  reap(0);
}

void ChildProcess::wait(double limit_s) {
  const double end_s = steady_seconds() + limit_s;
  while (!ended()) {
    if (steady_seconds() > end_s) return kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void ChildProcess::reap(int options) {
  int status = 0;
  if (child_ == -1 || ::waitpid(child_, &status, options) != child_) return;
  child_ = -1;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace strata
