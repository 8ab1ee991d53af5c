// Checks the tensors of the rotary embedding, lists the bytes that it touches and counts those it
// moves. Kernels are in kernels/cpu/rope.cpp and kernels/cuda/rows.

#include "strata/ops/rope.h"

#include "check.h"
#include "rope_angles.h"

namespace strata {

void Rope::check() const {
  const Checker c(kName);
  c.rank("x", x, 3);
  c.compute_dtype("x", x);
  c.require(x.shape[2] % 2 == 0, "x", "must have an even head dim");
  c.matches_contiguous("positions", positions, {x.shape[0]}, DType::kI32);
  c.rank("cos", cos, 2);
  c.require(2 * cos.shape[1] <= x.shape[2], "cos", "must have at most half as many pairs as x");
  const Shape table{cos.shape[0], cos.shape[1]};
  c.matches_contiguous("cos", cos, table, accumulator_of(x.dtype));
  c.matches_contiguous("sin", sin, table, accumulator_of(x.dtype));
}

Accesses Rope::accesses() const {
  return {{x.bytes(), positions.bytes(), cos.bytes(), sin.bytes()}, {x.bytes()}};
}

/// Counts only what is rotated: the range of a strided view also holds what lies between.
Cost Rope::cost() const {
  const std::int64_t elements = x.shape[0] * x.shape[1] * 2 * cos.shape[1];
  return {.bytes = 2 * static_cast<std::size_t>(elements) * size_of(x.dtype)};
}

bool Rope::turns_whole_halves() const {
  return 2 * cos.shape[1] == x.shape[2] && pairs == RopePairs::kHalves;
}

RopeAngles Rope::angles() const {
  if (!turns_whole_halves()) return {};
  return {.positions = positions, .cos = cos, .sin = sin};
}

bool given(const RopeAngles& angles) {
  return given(angles.positions) || given(angles.cos) || given(angles.sin);
}

void check_angles(const Checker& c, const RopeAngles& angles, const ConstTensorView& x) {
  c.matches_contiguous("rotation.positions", angles.positions, {x.shape[0]}, DType::kI32);
  c.rank("rotation.cos", angles.cos, 2);
  const Shape table{angles.cos.shape[0], x.shape[2] / 2};
  c.matches_contiguous("rotation.cos", angles.cos, table, accumulator_of(x.dtype));
  c.matches_contiguous("rotation.sin", angles.sin, table, accumulator_of(x.dtype));
}

}  // namespace strata
