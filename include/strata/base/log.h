// The program's log, a thin cover over spdlog: info, warn, error and debug take a format string and
// may be called by any thread. A command calls configure() once; before that, lines go to spdlog's
// default output. Rank 0 logs everything from info on, other ranks only warnings and errors.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace strata::log {

/// Sets where lines go and how they look; called once at start-up, before other threads log. Lines
/// go to standard error and, if `file` is not empty, are also appended to that file. Ranks other
/// than 0 log warnings and errors only, each with its rank. Throws IoError if the file cannot be
/// opened.
void configure(int rank, int ranks, const std::string& file);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace strata::log
