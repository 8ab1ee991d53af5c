// Makes tensors of the heads in a packed buffer, whose rows hold queries, keys and values one after
// the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/base/tensor.h"

namespace strata {

/// Returns columns [begin, begin + heads * D) of a packed buffer [N, width] as [N, heads, D].
[[nodiscard]] inline TensorView heads_of(const TensorView& packed, std::int64_t begin,
                                         std::int64_t heads, std::int64_t head_size) {
  std::byte* data = static_cast<std::byte*>(packed.data) +
                    static_cast<std::size_t>(begin) * size_of(packed.dtype);
  return {data, packed.dtype, Shape{packed.rows(), heads, head_size}, packed.row_stride};
}

}  // namespace strata
