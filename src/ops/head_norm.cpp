// Checks the tensors of the norms of heads, lists the bytes that they touch and counts those they
// move. Kernels are in kernels/cpu/head_norm.cpp, kernels/cuda/rows/head_norm.cu and
// head_norm_backward.cu beside it.

#include "strata/ops/head_norm.h"

#include "check.h"
#include "rope_angles.h"

namespace strata {

namespace {

/// Returns the bytes of so many tensors of heads: the range of a strided view also holds what lies
/// between the heads.
Cost cost_of(std::size_t tensors, const ConstTensorView& x) {
  return {.bytes = tensors * static_cast<std::size_t>(x.elements()) * size_of(x.dtype)};
}

}  // namespace

void HeadNormForward::check() const {
  const Checker c(kName);
  c.rank("x", x, 3);
  c.compute_dtype("x", x);
  c.require(eps >= 0, "eps", "must not be negative");
  c.matches_contiguous("weight", weight, {x.shape[2]}, x.dtype);
  c.matches("y", y, x.shape, x.dtype);
  const Shape heads{x.shape[0], x.shape[1]};
  if (rstd) c.matches_contiguous("rstd", rstd, heads, accumulator_of(x.dtype));
  if (!given(rotation)) return;
  c.require(x.shape[2] % 2 == 0, "x", "must have an even head dim to be turned");
  check_angles(c, rotation, x);
}

Accesses HeadNormForward::accesses() const {
  return {{x.bytes(), weight.bytes(), rotation.positions.bytes(), rotation.cos.bytes(),
           rotation.sin.bytes()},
          {y.bytes(), rstd.bytes()}};
}

Cost HeadNormForward::cost() const { return cost_of(2, x); }

void HeadNormBackward::check() const {
  const Checker c(kName);
  c.rank("x", x, 3);
  c.compute_dtype("x", x);
  const DType accumulator = accumulator_of(x.dtype);
  const std::int64_t head_size = x.shape[2];
  c.matches("dy", dy, x.shape, x.dtype);
  c.matches_contiguous("weight", weight, {head_size}, x.dtype);
  c.matches_contiguous("rstd", rstd, {x.shape[0], x.shape[1]}, accumulator);
  c.matches("dx", dx, x.shape, x.dtype);
  if (d_weight) c.matches_contiguous("d_weight", d_weight, {head_size}, accumulator);
  c.matches_contiguous("workspace", workspace, {kWorkspaceRows, head_size}, accumulator);
}

Accesses HeadNormBackward::accesses() const {
  return {{dy.bytes(), x.bytes(), weight.bytes(), rstd.bytes(), d_weight.bytes()},
          {dx.bytes(), d_weight.bytes(), workspace.bytes()}};
}

Cost HeadNormBackward::cost() const { return cost_of(3, x); }

}  // namespace strata
