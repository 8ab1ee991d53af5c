#pragma once

#include <cstdint>
#include <span>

namespace strata {

/// order becomes the positions n of `ids` sorted by (ids[n], n). Ids are in [0, vocabulary).
/// `scratch` is as large as `order`, which is as large as `ids`.
void sort_positions(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                    std::span<std::int32_t> order, std::span<std::int32_t> scratch);

}  // namespace strata
