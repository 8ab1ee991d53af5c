// What groups of ranks and their collectives promise, as functions that all ranks call. They serve
// ranks of MPI as well as ranks in threads, where Catch2 may not be called: a check throws
// std::runtime_error on the ranks where a promise does not hold. mpi_ranks.cpp, ranks_test.cpp and
// collectives_test.cpp go through the tables.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/device/device.h"

namespace strata {

/// One promise; `run` is called by all ranks of a group.
struct RanksCheck {
  const char* name;
  void (*run)(Ranks&);
};

/// Returns what every implementation of Ranks promises.
[[nodiscard]] std::span<const RanksCheck> ranks_checks();

/// Where collectives are checked: what makes a rank's device, and its collectives on it.
struct CommMachine {
  std::function<std::unique_ptr<Device>()> device;
  std::function<std::unique_ptr<Collectives>(Ranks&, Device&)> collectives = make_collectives;
};
/// Returns a cpu device with the collectives that its ranks have.
[[nodiscard]] CommMachine cpu_machine();

/// One promise of collectives; `run` is called by all ranks of a group.
struct CollectivesCheck {
  const char* name;
  void (*run)(Ranks&, const CommMachine&);
};
/// Returns what the collectives of every machine promise.
[[nodiscard]] std::span<const CollectivesCheck> collectives_checks();
/// Returns what holds beyond that for MPI's ranks and for ranks in threads on cpu devices: both add
/// in the order of ranks. No interface promises it, but because of it a run has the same bits on
/// both.
[[nodiscard]] std::span<const RanksCheck> rank_order_checks();

}  // namespace strata
