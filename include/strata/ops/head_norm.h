// RMSNorm of each head of queries or keys by itself, forward and backward. Models whose layers have
// such norms run it after the projection. The rotary embedding follows, and forward may do it on
// the way; backward of it is part of attention's. Letters of shapes are those of
// strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"
#include "strata/ops/rope.h"

namespace strata {

/// y = x * rsqrt(mean(x^2) + eps) * (weight + offset), head by head, computed in A and rounded
/// once. In place is allowed. With a `rotation` the rounded y is then turned as Rope turns it, in
/// A, and rounded again: the bits are those of both operators, one after the other.
struct HeadNormForward {
  static constexpr std::string_view kName = "head_norm_forward";
  ConstTensorView x;       ///< [N, heads, D] X; rows may be strided
  ConstTensorView weight;  ///< [D] X
  TensorView y;            ///< [N, heads, D] X; rows may be strided
  TensorView rstd;         ///< [N, heads] A, kept for backward, or absent
  double eps = 1e-5;
  double offset = 0;         ///< of weights: 1 where a family's files have weights less 1
  RopeAngles rotation = {};  ///< or absent
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// With xhat = x * rstd and g = (weight + offset) * dy:
/// dx = rstd * (g - xhat * mean(g * xhat)) over a head, d_weight += sum over n and heads of
/// dy * xhat. In place (dx == dy) is allowed. The sum runs in a fixed order.
struct HeadNormBackward {
  static constexpr std::string_view kName = "head_norm_backward";
  ConstTensorView dy;      ///< [N, heads, D] X; rows may be strided
  ConstTensorView x;       ///< [N, heads, D] X: what was normalised; rows may be strided
  ConstTensorView weight;  ///< [D] X
  ConstTensorView rstd;    ///< [N, heads] A
  TensorView dx;           ///< [N, heads, D] X; rows may be strided
  TensorView d_weight;     ///< [D] A, added to; absent where nobody trains the weight
  TensorView workspace;    ///< [kWorkspaceRows, D] A: partial sums; the cpu backend ignores it
  double offset = 0;       ///< as in forward
  static constexpr std::int64_t kWorkspaceRows = 256;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
