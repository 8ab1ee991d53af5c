// Moments of a checkpoint in the dtype of the run that goes on from it. load_state() converts a
// range of a block at a time, on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "strata/store/training_state.h"

namespace strata {

/// The bytes of m and v in some dtype, and of their scales if that is kMomentCode. Without v there
/// are none of it.
struct ConvertedMoments {
  std::vector<std::byte> m, v, scale;
};

/// Returns the moments of the first `count` elements of `from`, rounded to nearest in another
/// dtype. Codes of `from`, and those that are made, begin a block. Returns nothing if there are
/// moments that codes cannot be made of, because they are not finite.
[[nodiscard]] std::optional<ConvertedMoments> converted_moments(const BlockState& from,
                                                                std::int64_t count, DType to);

}  // namespace strata
