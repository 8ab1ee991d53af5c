// Checks the tensors of the RMSNorm operators and lists the bytes that they touch. Kernels are in
// kernels/cpu/norm.cpp and in two files of kernels/cuda/rows.

#include "strata/ops/norm.h"

#include "check.h"

namespace strata {

void RmsNormForward::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.require(eps >= 0, "eps", "must not be negative");
  const Shape& shape = x.shape;
  c.matches_contiguous("weight", weight, {shape[1]}, x.dtype);
  if (residual) {
    c.matches("residual", residual, shape, x.dtype);
    c.matches("sum", sum, shape, x.dtype);
  } else {
    c.require(!sum || x.elements() == 0, "sum", "must be absent without a residual");
  }
  c.matches("y", y, shape, x.dtype);
  c.matches_contiguous("rstd", rstd, {shape[0]}, accumulator_of(x.dtype));
}

Accesses RmsNormForward::accesses() const {
  return {{x.bytes(), residual.bytes(), weight.bytes()}, {sum.bytes(), y.bytes(), rstd.bytes()}};
}

void RmsNormBackward::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  const Shape& shape = x.shape;
  const DType accumulator = accumulator_of(x.dtype);
  c.matches("dy", dy, shape, x.dtype);
  c.matches_contiguous("weight", weight, {shape[1]}, x.dtype);
  c.matches_contiguous("rstd", rstd, {shape[0]}, accumulator);
  if (d_residual) c.matches("d_residual", d_residual, shape, x.dtype);
  c.matches("dx", dx, shape, x.dtype);
  c.matches_contiguous("d_weight", d_weight, {shape[1]}, accumulator);
  c.matches_contiguous("workspace", workspace, {kWorkspaceRows, shape[1]}, accumulator);
}

Accesses RmsNormBackward::accesses() const {
  return {
      {dy.bytes(), x.bytes(), weight.bytes(), rstd.bytes(), d_residual.bytes(), d_weight.bytes()},
      {dx.bytes(), d_weight.bytes(), workspace.bytes()}};
}

}  // namespace strata
