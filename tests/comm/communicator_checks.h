// What every communicator must do, as checks that all ranks run. communicator_test.cpp runs them on
// threads, mpi_ranks.cpp on the ranks of MPI.
#pragma once

#include <span>

#include "strata/comm/communicator.h"

namespace strata {

/// One property of every communicator: `run` is called by all ranks and throws std::runtime_error
/// on the ranks where it does not hold. So it serves for ranks of MPI as for ranks in threads,
/// where Catch2 may not be called.
struct CommunicatorCheck {
  const char* name;
  void (*run)(Communicator&);
};
[[nodiscard]] std::span<const CommunicatorCheck> communicator_checks();

}  // namespace strata
