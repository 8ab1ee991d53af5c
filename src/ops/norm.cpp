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
  if (y || !y8) c.matches("y", y, shape, x.dtype);
  c.fp8({.codes_name = "y8", .codes = y8, .scale_name = "y_scale", .scale = y_scale}, shape);
  c.matches_contiguous("rstd", rstd, {shape[0]}, accumulator_of(x.dtype));
}

Accesses RmsNormForward::accesses() const {
  return {{x.bytes(), residual.bytes(), weight.bytes()},
          {sum.bytes(), y.bytes(), rstd.bytes(), y8.bytes(), y_scale.bytes()}};
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
  c.fp8({.codes_name = "dx8", .codes = dx8, .scale_name = "dx_scale", .scale = dx_scale}, shape);
  if (d_weight) c.matches_contiguous("d_weight", d_weight, {shape[1]}, accumulator);
  c.matches_contiguous("workspace", workspace, {kWorkspaceRows, shape[1]}, accumulator);
}

Accesses RmsNormBackward::accesses() const {
  return {
      {dy.bytes(), x.bytes(), weight.bytes(), rstd.bytes(), d_residual.bytes(), d_weight.bytes()},
      {dx.bytes(), d_weight.bytes(), workspace.bytes(), dx8.bytes(), dx_scale.bytes()}};
}

}  // namespace strata
