// How much of attention document masks leave in the batches of a step. The session reports it with
// the step, since a masked row needs fewer FLOPs than a whole one.

#pragma once

#include "strata/comm/ranks.h"
#include "strata/data/batch.h"

namespace strata {

/// Returns the sum of the squared lengths of the documents in the buffers of a pass.
[[nodiscard]] double attended_pairs(const PassBuffers& buffers);

/// Returns the share of `pairs`, which the documents of this rank's step have, in those of whole
/// rows, over all ranks. All ranks call it; it blocks.
[[nodiscard]] double attended_share(double pairs, const BatchOptions& batches, Ranks& ranks);

}  // namespace strata
