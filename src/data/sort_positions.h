// Sorts a batch's token positions by id, so that the embedding's backward can add the gradients of
// each table row in a fixed order. Batches are sorted on the host, one sub-batch per thread.
#pragma once

#include <cstdint>
#include <span>

namespace strata {

/// Sets `order` to the positions n of `ids` sorted by (ids[n], n). Ids are in [0, vocabulary).
/// `scratch` is as large as `order`, which is as large as `ids`; what it holds afterwards means
/// nothing.
void sort_positions(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                    std::span<std::int32_t> order, std::span<std::int32_t> scratch);

}  // namespace strata
