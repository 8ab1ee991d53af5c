// Caps values smoothly, forward and backward. Models that cap their logits run it between the
// projection to logits and the loss or the choice of a token. Letters of shapes are those of
// strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// y = cap * tanh(x / cap), computed in A and rounded once. In place is allowed. Source: Gemma
/// Team, "Gemma 2", 2024, section 2.
struct SoftCapForward {
  static constexpr std::string_view kName = "soft_cap_forward";
  ConstTensorView x;  ///< [N, C] X; rows may be strided
  TensorView y;       ///< [N, C] X; rows may be strided
  double cap = 0;     ///< above 0
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// dx = dy * (1 - (y / cap)^2), with y as forward has rounded it, computed in A and rounded once.
/// In place (dx == dy) is allowed.
struct SoftCapBackward {
  static constexpr std::string_view kName = "soft_cap_backward";
  ConstTensorView dy;  ///< [N, C] X; rows may be strided
  ConstTensorView y;   ///< [N, C] X; rows may be strided
  TensorView dx;       ///< [N, C] X; rows may be strided
  double cap = 0;      ///< as in forward
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
