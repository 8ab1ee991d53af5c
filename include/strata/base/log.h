// The program's log, a thin cover over spdlog: info, warn, error and debug take a format string and
// may be called by any thread. A command calls configure() once; before that, lines go to spdlog's
// default output. Rank 0 says info, warnings and errors on standard error and writes them and debug
// to its file, other ranks only say warnings and errors.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

#include "strata/base/function_ref.h"

namespace strata::log {

/// Sets where lines go and how they look; called once at start-up, before other threads log. Lines
/// go to standard error and, if `file` is not empty, are also appended to that file, which has
/// debug lines as well. Ranks other than 0 log warnings and errors only, each with its rank. Throws
/// IoError if the file cannot be opened; if it cannot be written later, the first time is reported
/// on standard error and the program goes on.
void configure(int rank, int ranks, const std::string& file);

/// Shows `text` below the log if standard error is a terminal and this is rank 0, cut to the width
/// of the terminal, in the place of what was shown there before. Log lines go above it. An empty
/// text takes it away. Any thread may call it.
void live(std::string_view text);
/// Returns whether live() shows anything.
[[nodiscard]] bool shows_live();
/// Calls `print`, which writes lines to standard output, while what live() shows is not there: both
/// may be one terminal. Other threads do not log meanwhile, and `print` must not.
void print_above(FunctionRef<void()> print);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace strata::log
