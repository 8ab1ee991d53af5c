#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace strata::log {

/// Sets the pattern and level once at start-up. Ranks other than 0 log warnings and errors only,
/// each with its rank. `file` may be empty; otherwise everything is also appended to it.
void configure(int rank, int ranks, const std::string& file);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace strata::log
