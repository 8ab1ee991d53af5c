// Several ranks in one process, a thread each, where sanitizers and debuggers see all of them.
// Tests of everything that ranks do together call run_ranks; it offers both halves of what MPI
// offers: the control plane, and through make_collectives the collectives of cpu devices.
#pragma once

#include <functional>

#include "strata/comm/ranks.h"

namespace strata {

/// Runs body(group) for `ranks` ranks, each in a thread of its own and with what it makes for
/// itself (its own cpu Device above all), and joins them. Sums over ranks are taken as MPI's ranks
/// take them, so a run has the same bits on both. After a reduce_scatter the other ranks' shards
/// hold NaN, so that nobody reads them unnoticed. A body that throws, or calls abort(), releases
/// the others: whatever they wait for throws BackendError. The first exception is thrown here once
/// all threads have ended. The ranks are on hosts of `on_host` ranks each, or on one if it is 0.
void run_ranks(int ranks, const std::function<void(Ranks&)>& body, int on_host = 0);

}  // namespace strata
