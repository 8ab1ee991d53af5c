// The RMSNorm operators: forward, with the residual addition before it fused in, and backward. The
// model runs them twice a layer and once before the head. Letters of shapes are those of
// strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// s = x + residual (rounded to X and stored, if there is a residual, else s = x);
/// y = s * rsqrt(mean(s^2) + eps) * (weight + offset), row by row, computed in A and rounded once.
/// In place (y == x, y == residual, sum == x, sum == residual) is allowed, but one name at a time,
/// and sum == x together with y == residual. y8 and y_scale get what QuantizeFp8Rows makes of y.
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
struct RmsNormForward {
  static constexpr std::string_view kName = "rmsnorm_forward";
  ConstTensorView x;         ///< [N, C] X
  ConstTensorView residual;  ///< [N, C] X, may be absent
  ConstTensorView weight;    ///< [C] X
  TensorView sum;            ///< [N, C] X; present exactly if residual is
  TensorView y;              ///< [N, C] X; may be absent if y8 is there
  TensorView rstd;           ///< [N] A, kept for backward
  double eps = 1e-5;
  double offset = 0;        ///< of weights: 1 where a family's files have weights less 1
  TensorView y8 = {};       ///< [N, C] e4m3, may be absent
  TensorView y_scale = {};  ///< [N] f32; present exactly if y8 is
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// With xhat = x * rstd and g = (weight + offset) * dy:
/// dx = d_residual + rstd * (g - xhat * mean(g * xhat)),  d_weight += sum over n of dy * xhat.
/// In place (dx == dy, dx == d_residual) is allowed. The sum over n runs in a fixed order. dx8 and
/// dx_scale get what QuantizeFp8Rows makes of dx.
struct RmsNormBackward {
  static constexpr std::string_view kName = "rmsnorm_backward";
  ConstTensorView dy;          ///< [N, C] X
  ConstTensorView x;           ///< [N, C] X: what was normalised (the sum, if there was a residual)
  ConstTensorView weight;      ///< [C] X
  ConstTensorView rstd;        ///< [N] A
  ConstTensorView d_residual;  ///< [N, C] X, may be absent
  TensorView dx;               ///< [N, C] X
  TensorView d_weight;         ///< [C] A, added to; absent where nobody trains the weight
  TensorView workspace;        ///< [kWorkspaceRows, C] A: partial sums; the cpu backend ignores it
  double offset = 0;           ///< as in forward
  TensorView dx8 = {};         ///< [N, C] e4m3, may be absent
  TensorView dx_scale = {};    ///< [N] f32; present exactly if dx8 is
  static constexpr std::int64_t kWorkspaceRows = 256;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
