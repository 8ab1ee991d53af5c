// What groups of ranks and their collectives promise, as functions that all ranks call. They serve
// ranks of MPI as well as ranks in threads, where Catch2 may not be called: a check throws
// std::runtime_error on the ranks where a promise does not hold. mpi_ranks.cpp, ranks_test.cpp and
// collectives_test.cpp go through the tables.
#pragma once

#include <span>

#include "strata/comm/ranks.h"

namespace strata {

/// One promise; `run` is called by all ranks of a group.
struct RanksCheck {
  const char* name;
  void (*run)(Ranks&);
};

/// Returns what every implementation of Ranks promises.
[[nodiscard]] std::span<const RanksCheck> ranks_checks();
/// Returns what the collectives of these ranks on a cpu device promise.
[[nodiscard]] std::span<const RanksCheck> collectives_checks();
/// Returns what holds beyond that for MPI's ranks and for ranks in threads: both add in the order
/// of ranks. No interface promises it, but because of it a run has the same bits on both.
[[nodiscard]] std::span<const RanksCheck> rank_order_checks();

}  // namespace strata
