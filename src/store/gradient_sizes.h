// The sizes of what gradients take on their way home, which the memory of the gradient store and
// the store itself go by.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/model/layout.h"
#include "strata/store/block_plan.h"

namespace strata {

/// Returns the bytes of an accumulator, [padded] A.
[[nodiscard]] std::size_t accumulator_bytes(const Block& block, const StatePlan& plan);
/// Returns how many partial sums of squares the device takes of a block's gradient, or 0 if there
/// is none, or the host takes them because the device never has the complete gradient.
[[nodiscard]] std::int64_t norm_count(const ModelLayout& layout, BlockId block,
                                      const StatePlan& plan);
/// Returns true if the gradient that the optimizer reads is narrower than the accumulator.
[[nodiscard]] bool rounds(const StatePlan& plan);

}  // namespace strata
