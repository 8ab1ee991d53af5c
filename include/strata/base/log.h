// The program's log, a thin cover over spdlog: info, warn, error and debug take a format string and
// may be called by any thread. A command calls configure() once; before that, lines go to spdlog's
// default output. Rank 0 says info, warnings and errors on standard error and writes them and debug
// to its file, other ranks only say warnings and errors.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace strata::log {

/// Sets where lines go and how they look; called once at start-up, before other threads log. Lines
/// go to standard error and, if `file` is not empty, are also appended to that file, which has
/// debug lines as well. Ranks other than 0 log warnings and errors only, each with its rank. Throws
/// IoError if the file cannot be opened; if it cannot be written later, the first time is reported
/// on standard error and the program goes on.
void configure(int rank, int ranks, const std::string& file);

/// Shows `text` below the log if standard error is a terminal, cut to its width, in the place of
/// what was shown there before. Log lines go above it. An empty text takes it away.
void live(std::string_view text);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace strata::log
