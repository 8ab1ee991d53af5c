// How `train` and `bench` run on all ranks that a launcher started, and end together when one of
// them fails.

#pragma once

#include <functional>

#include "strata/comm/ranks.h"

namespace strata {

/// Runs `body` on this rank and returns the exit code. An error is logged, on standard error and
/// where `body` configured the log to go; with several ranks it takes all of them down with its
/// exit code, so that none hangs in a collective. Throws nothing that `body` throws.
int on_all_ranks(const std::function<int(Ranks&)>& body);

}  // namespace strata
