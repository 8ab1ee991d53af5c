// The whole program as one function: main and the fuzzer, which runs it within itself, call it.
#pragma once

namespace strata {

/// Does what the arguments ask for, as main gets them, and returns the exit code. Errors become a
/// line on standard error; nothing is thrown.
[[nodiscard]] int run_command_line(int argc, char** argv);

}  // namespace strata
