// Operators that treat every element alike: add, accumulate, cast and fill. The model adds
// residuals with them, and the gradient store sums and narrows gradients on the device or the host
// lane. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// y = a + b, added in A and rounded once. In place is allowed.
struct ResidualAdd {
  static constexpr std::string_view kName = "residual_add";
  ConstTensorView a;  ///< [N, C] X
  ConstTensorView b;  ///< [N, C] X
  TensorView y;       ///< [N, C] X
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// sum += x. Both are contiguous and of one dtype.
struct Accumulate {
  static constexpr std::string_view kName = "accumulate";
  ConstTensorView x;  ///< [n] f32 or f64
  TensorView sum;     ///< [n] dtype of x, added to
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// y = x in the dtype of y: f64, f32 and bf16 in every pair, rounded to nearest, ties to even, and
/// i32 as it is. Both contiguous. In place is allowed for equal dtypes only.
struct Cast {
  static constexpr std::string_view kName = "cast";
  ConstTensorView x;  ///< [n]
  TensorView y;       ///< [n]
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// x = value for f64, f32, bf16 or i32, contiguous.
struct Fill {
  static constexpr std::string_view kName = "fill";
  TensorView x;  ///< [n]
  double value = 0;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
