// Estimates how much the link to the host can carry away while the device computes. The rule of
// spills asks, so that what it spills is back in time by a rough account; predictions do not use
// it.

#pragma once

#include <cstddef>
#include <optional>

#include "strata/plan/setup.h"

namespace strata {

/// Returns the bytes that a cell may spill: those that the link can take away while a layer runs
/// forward on one sub-batch, and bring back while it runs backward, beside the boundary and the
/// cell's share of weights and interleaved state. Absent if these are too many already, or the
/// device's speed is unknown. Of the plan it reads rows of blocks and slots of boundaries.
[[nodiscard]] std::optional<std::size_t> idle_link_bytes(const Setup& s);

}  // namespace strata
