// `train` and `bench` run their bodies through this function on all ranks that a launcher started.
// It sees to it that they end together when one of them fails.

#pragma once

#include <functional>

#include "strata/comm/ranks.h"

namespace strata {

/// Runs `body` on this rank and returns the exit code. An error is logged, on standard error and
/// where `body` configured the log to go; with several ranks it takes all of them down with its
/// exit code, so that none hangs in a collective. Throws nothing that `body` throws.
int on_all_ranks(const std::function<int(Ranks&)>& body);

}  // namespace strata
