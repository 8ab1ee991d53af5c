// The rotary position embedding, in place on q and k, and the angles for operators that undo it on
// the way. The model runs it once a layer in forward, with tables that it made at start-up
// (strata/model/rope_table.h). Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// Whether to rotate by the angles, or back by them for gradients.
enum class RopeDirection : std::uint8_t { kForward, kBackward };

/// The angles of Rope, given to another operator: pair i of row n has the angle of (positions[n],
/// i).
struct RopeAngles {
  ConstTensorView positions;  ///< [N] i32, each in [0, P)
  ConstTensorView cos;        ///< [P, D/2] A
  ConstTensorView sin;        ///< [P, D/2] A
};

/// Rotary position embedding in place, the half-split form of LLaMA checkpoints on the Hugging Face
/// hub: for i < D/2, (x[i], x[i+D/2]) is rotated by the angle of (positions[n], i); backward
/// rotates by minus that angle. Computed in A, rounded once. Source: Su et al., "RoFormer", 2021.
struct Rope {
  static constexpr std::string_view kName = "rope";
  TensorView x;               ///< [N, heads, D] X, rotated in place; rows may be strided
  ConstTensorView positions;  ///< [N] i32, each in [0, P)
  ConstTensorView cos;        ///< [P, D/2] A
  ConstTensorView sin;        ///< [P, D/2] A
  RopeDirection direction = RopeDirection::kForward;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
