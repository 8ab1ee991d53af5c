// The collectives of ranks of MPI, whose work is host tasks on the comm lane. Only the ranks of MPI
// make them (Ranks::make_host_collectives), because they travel over a connection of these ranks.
#pragma once

#include <mpi.h>

#include <memory>

#include "strata/comm/collectives.h"

namespace strata {

/// Returns collectives of rank `rank` among `ranks`. Nobody else sends over `lane`, which outlives
/// them. They take 8 MiB of host memory, or 64 bytes a rank if that is more.
[[nodiscard]] std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm lane, int rank, int ranks);

}  // namespace strata
