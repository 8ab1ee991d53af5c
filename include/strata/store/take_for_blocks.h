// Asks an allocator for what stores take for each block: block after block of one that has memory,
// and once for all of a row of equal blocks of one that only counts. A plan is made so often that a
// thousand layers would be too many.

#pragma once

#include "strata/base/function_ref.h"
#include "strata/device/allocator.h"
#include "strata/model/ids.h"
#include "strata/model/layout.h"
#include "strata/store/block_plan.h"

namespace strata {

/// Calls `take` for the blocks in their order. For a block whose size, kind, row and mark are those
/// of the one before it, it has to take the same. No marks stand for equal ones.
void take_for_blocks(const ModelLayout& layout, const StatePlan& plan, Allocator& memory,
                     FunctionRef<void(BlockId)> take, const PerBlock<std::uint8_t>& marks = {});

}  // namespace strata
