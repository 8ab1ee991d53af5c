// Asks another program of this machine a short question, such as what the batch system knows of a
// job. No shell is involved, and a program that does not answer is ended.
#pragma once

#include <string>
#include <vector>

namespace strata {

struct ProgramAnswer {
  std::string text;     ///< of standard output, up to 64 KiB
  std::string failure;  ///< why there is no answer; empty if the program ended with code 0
};

/// Runs arguments[0], which is looked for on PATH, with all arguments and blocks until it has
/// ended, `limit_s` seconds at most: then it is killed. Its standard error is thrown away. Throws
/// nothing.
[[nodiscard]] ProgramAnswer run_program(const std::vector<std::string>& arguments, double limit_s);

}  // namespace strata
