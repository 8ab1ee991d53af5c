// Several ranks in one process, for tests of schedule, stores and training. It replaces MPI there,
// so that sanitizers see all ranks.
#pragma once

#include <functional>

#include "strata/comm/communicator.h"

namespace strata {

/// Runs body(communicator) for `ranks` ranks, each in a thread of its own and with what it makes
/// for itself (its own cpu Device above all), and joins them. The communicators behave like those
/// of MPI, but stay in this process, where sanitizers and debuggers see all ranks; after
/// reduce_scatter the other ranks' shards hold NaN, so that nobody reads them unnoticed. A body
/// that throws, or calls abort(), releases the others: whatever they wait for throws BackendError.
/// The first exception is thrown here once all threads have ended.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace strata
