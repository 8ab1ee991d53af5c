// The SwiGLU operators: silu(gate) * up, and its gradients, also with GELU in place of SiLU. The
// model runs them between the two products of a layer's feed-forward part. Letters of shapes are
// those of strata/ops/embedding.h.
#pragma once

#include <cstdint>

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// What a gate goes through.
enum class Activation : std::uint8_t {
  kSilu,      ///< x * sigmoid(x)
  kGeluTanh,  ///< x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is GELU by its tanh
  kGelu,      ///< x * Phi(x), with the distribution of the normal one
};

/// y = activation(gate) * up with [gate | up] side by side: gate is columns [0, F), up is [F, 2F).
/// Computed in A, rounded once. y8 and y_scale get what QuantizeFp8Rows makes of y. Source:
/// Shazeer, "GLU Variants Improve Transformer", 2020.
struct SwigluForward {
  static constexpr std::string_view kName = "swiglu_forward";
  ConstTensorView gate_up;  ///< [N, 2F] X
  TensorView y;             ///< [N, F] X; may be absent if y8 is there
  Activation activation = Activation::kSilu;
  TensorView y8 = {};       ///< [N, F] e4m3, may be absent
  TensorView y_scale = {};  ///< [N] f32; present exactly if y8 is
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// d_gate = d_y * up * activation'(gate), d_up = d_y * activation(gate), for SiLU with s =
/// sigmoid(gate): d_y * up * s * (1 + gate * (1 - s)) and d_y * gate * s;
/// y is built again (it is an operand of the next weight gradient and was not kept).
/// In place (d_gate_up == gate_up, y == d_y) is allowed. d_gate_up8 and d_gate_up_scale get what
/// QuantizeFp8Rows makes of d_gate_up.
struct SwigluBackward {
  static constexpr std::string_view kName = "swiglu_backward";
  ConstTensorView d_y;      ///< [N, F] X
  ConstTensorView gate_up;  ///< [N, 2F] X
  TensorView d_gate_up;     ///< [N, 2F] X
  TensorView y;             ///< [N, F] X
  Activation activation = Activation::kSilu;
  TensorView d_gate_up8 = {};       ///< [N, 2F] e4m3, may be absent
  TensorView d_gate_up_scale = {};  ///< [N] f32; present exactly if d_gate_up8 is
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
