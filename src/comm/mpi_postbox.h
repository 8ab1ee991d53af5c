// Letters through MPI, for the ranks of MPI alone (Ranks::make_postbox).
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/lifeline.h"
#include "strata/comm/postbox.h"

namespace strata {

/// Returns the postbox of rank `rank` among `ranks`, all of which make theirs together by `gather`.
/// Nobody else sends over `letters`, which outlives it.
[[nodiscard]] std::unique_ptr<Postbox> make_mpi_postbox(MPI_Comm letters, int rank, int ranks,
                                                        const Lifeline::Gather& gather);

}  // namespace strata
