// Says which heads in a packed buffer the norms of queries and keys read, for the lists of
// operators of layers.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strata/base/tensor.h"
#include "strata/model/spec.h"
#include "strata/ops/heads.h"

namespace strata {

/// Returns columns [begin, begin + count) of a matrix [N, width].
template <class Void>
[[nodiscard]] BasicTensorView<Void> columns_of(const BasicTensorView<Void>& matrix,
                                               std::int64_t begin, std::int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  Byte* data =
      static_cast<Byte*>(matrix.data) + static_cast<std::size_t>(begin) * size_of(matrix.dtype);
  return {data, matrix.dtype, Shape{matrix.rows(), count}, matrix.row_stride};
}

/// The heads of a packed buffer that a norm reads, all of queries or all of keys.
struct NormedHeads {
  NormId id{};
  std::int64_t begin = 0;  ///< first column
  std::int64_t heads = 0;
  std::int64_t head_size = 0;

  /// Returns whether each head is normalised by itself, and not all of them as one row.
  [[nodiscard]] bool one_by_one(const LayerSpec& layer) const {
    return layer.norm(id).width == head_size;
  }
  /// Returns them as [N, heads, D].
  [[nodiscard]] TensorView apart(const TensorView& packed) const {
    return heads_of(packed, begin, heads, head_size);
  }
  /// Returns them as [N, heads * D].
  [[nodiscard]] TensorView joined(const TensorView& packed) const {
    const TensorView all = apart(packed);
    return {all.data, all.dtype, Shape{all.rows(), heads * head_size}, all.row_stride};
  }
};

/// Returns those of queries and those of keys.
[[nodiscard]] inline std::array<NormedHeads, 2> normed_heads(const AttentionSpec& attention) {
  const std::int64_t d = attention.head_size;
  return {NormedHeads{NormId::kQuery, 0, attention.heads, d},
          NormedHeads{NormId::kKey, attention.query_width(), attention.kv_heads, d}};
}

}  // namespace strata
