#pragma once

#include <functional>

#include "strata/comm/communicator.h"

namespace strata {

/// Runs `body` on what the launcher started and returns the exit code. An error is logged, on
/// standard error and where `body` configured the log to go; with several ranks it takes all of
/// them down with its exit code, so that none hangs in a collective.
int on_all_ranks(const std::function<int(Communicator&)>& body);

}  // namespace strata
