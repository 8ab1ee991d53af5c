// The rotary position embedding, in place on q and k, and the angles for operators that undo it on
// the way. The model runs it once a layer in forward, with tables that it made at start-up
// (strata/model/rope_table.h). Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// Whether to rotate by the angles, or back by them for gradients.
enum class RopeDirection : std::uint8_t { kForward, kBackward };

/// Which elements of a head are pair i of E/2.
enum class RopePairs : std::uint8_t {
  kHalves,      ///< i and i + E/2, as in LLaMA checkpoints on the Hugging Face hub
  kNeighbours,  ///< 2 i and 2 i + 1, as in the paper
};

/// The angles of Rope, given to another operator, for whole heads of RopePairs::kHalves: pair i of
/// row n has the angle of (positions[n], i). All three are there, or none.
struct RopeAngles {
  ConstTensorView positions;  ///< [N] i32, each in [0, P)
  ConstTensorView cos;        ///< [P, D/2] A
  ConstTensorView sin;        ///< [P, D/2] A
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(positions); }
};

/// Rotary position embedding in place: pair i < E/2 of the first E elements of each head is rotated
/// by the angle of (positions[n], i); backward rotates by minus that angle. Elements behind the
/// first E stay. E follows from the tables. Computed in A, rounded once. Source: Su et al.,
/// "RoFormer", 2021.
struct Rope {
  static constexpr std::string_view kName = "rope";
  TensorView x;               ///< [N, heads, D] X, rotated in place; rows may be strided
  ConstTensorView positions;  ///< [N] i32, each in [0, P)
  ConstTensorView cos;        ///< [P, E/2] A, with E <= D
  ConstTensorView sin;        ///< [P, E/2] A
  RopeDirection direction = RopeDirection::kForward;
  RopePairs pairs = RopePairs::kHalves;
  /// Returns whether all elements of heads are rotated, in halves: what operators that rotate on
  /// the way compute.
  [[nodiscard]] bool turns_whole_halves() const;
  /// Returns the angles for such an operator, or none if this one has to run by itself.
  [[nodiscard]] RopeAngles angles() const;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
