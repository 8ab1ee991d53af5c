// Checks the tensors of the rotary embedding, lists the bytes that it touches and counts those it
// moves. Kernels are in kernels/cpu/rope.cpp and kernels/cuda/rows.

#include "strata/ops/rope.h"

#include "check.h"

namespace strata {

void Rope::check() const {
  const Checker c(kName);
  c.rank("x", x, 3);
  c.compute_dtype("x", x);
  const std::int64_t head_dim = x.shape[2];
  c.require(head_dim % 2 == 0, "x", "must have an even head dim");
  c.matches_contiguous("positions", positions, {x.shape[0]}, DType::kI32);
  c.rank("cos", cos, 2);
  const Shape table{cos.shape[0], head_dim / 2};
  c.matches_contiguous("cos", cos, table, accumulator_of(x.dtype));
  c.matches_contiguous("sin", sin, table, accumulator_of(x.dtype));
}

Accesses Rope::accesses() const {
  return {{x.bytes(), positions.bytes(), cos.bytes(), sin.bytes()}, {x.bytes()}};
}

/// Counts only the heads themselves: the range of a strided view also holds what lies between them.
Cost Rope::cost() const {
  return {.bytes = 2 * static_cast<std::size_t>(x.elements()) * size_of(x.dtype)};
}

}  // namespace strata
