// Runs another program for as long as it takes, and keeps the end of what it says. A benchmark runs
// each of its rows so: what happens to the program does not happen to who waits for it. Short
// questions are asked by run_program().
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace strata {

/// How long a program may run.
struct ChildLimits {
  double limit_s = 0;               ///< it is told to end then
  double grace_s = 10;              ///< what is left of it so long after that is killed
  std::function<bool()> stop = {};  ///< asked some times a second; true tells it to end as well
};

/// How a program ended.
struct ChildEnd {
  int exit_code = 0;       ///< 128 and the signal's number where a signal ended it, as shells count
  bool signalled = false;  ///< a signal ended it
  bool told = false;       ///< it had been told to end
  std::string output;      ///< the last 64 KiB of standard output and error together
};

/// Runs arguments[0], which is looked for on PATH, with all arguments, an empty standard input and
/// the environment of this process, and blocks until it has ended. To tell it to end is to send
/// SIGTERM to it and to what it started; it gets the same if this process dies. Throws Error if it
/// cannot be started.
[[nodiscard]] ChildEnd run_child(const std::vector<std::string>& arguments,
                                 const ChildLimits& limits);

}  // namespace strata
