// The embedding operators: a gather of table rows, and its transpose as sums over sorted positions.
// The model's first unit runs them once a sub-batch. The letters of shapes that all operator
// headers use are defined here.
#pragma once

// Dimension letters used by all operator headers:
//   B rows of a sub-batch, T tokens of a row, N = B*T tokens of a sub-batch, C hidden, F ffn,
//   V vocabulary, H heads, K kv heads, D head dim.
// "X" is the compute dtype (bf16, f32; the cpu backend also f64), "A" its accumulator dtype: f64
// for f64, else f32. Gradients of weights are A and are always added to.

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// y[n] = scale * table[ids[n]], copied as it is where scale is 1. Another one is rounded to X
/// first, and then the product to X.
struct EmbeddingForward {
  static constexpr std::string_view kName = "embedding_forward";
  ConstTensorView ids;    ///< [N] i32, each in [0, V)
  ConstTensorView table;  ///< [V, C] X
  TensorView y;           ///< [N, C] X
  double scale = 1;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// d_table[ids[n]] += scale * dy[n], each table row in ascending n (so the result is
/// deterministic). A scale is rounded as in forward.
struct EmbeddingBackward {
  static constexpr std::string_view kName = "embedding_backward";
  ConstTensorView ids;    ///< [N] i32
  ConstTensorView order;  ///< [N] i32: positions n sorted by (ids[n], n)
  ConstTensorView dy;     ///< [N, C] X
  TensorView d_table;     ///< [V, C] A, added to
  double scale = 1;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
