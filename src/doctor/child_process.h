// Another process of the program, which the self-test starts, waits for and kills.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace strata {

/// A process that is killed if it still runs when the object goes.
class ChildProcess {
 public:
  /// Starts arguments[0] with all arguments, as a program that is alone: variables of launchers of
  /// ranks are left out. Its output goes to `log`, which is replaced. Throws IoError if it cannot
  /// be started.
  ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Returns whether it has ended.
  [[nodiscard]] bool ended();
  /// Sends SIGKILL to it and to what it started, and blocks until it has ended.
  void kill();
  /// Blocks until it has ended, or kills it after `limit_s` seconds.
  void wait(double limit_s);
  /// Returns its exit code, or minus the signal that ended it. It has ended.
  [[nodiscard]] int code() const { return code_; }

 private:
  void reap(int options);

  pid_t child_ = -1;  ///< -1: it has ended
  int code_ = 0;
};

}  // namespace strata
