// Checks the tensors of the operators of biases and lists the bytes that they touch. Kernels are in
// kernels/cpu/bias.cpp and kernels/cuda/rows/bias.cu.

#include "strata/ops/bias.h"

#include "check.h"

namespace strata {

void BiasAdd::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches_contiguous("bias", bias, {x.shape[1]}, x.dtype);
  c.matches("y", y, x.shape, x.dtype);
}

Accesses BiasAdd::accesses() const { return {{x.bytes(), bias.bytes()}, {y.bytes()}}; }

void BiasBackward::check() const {
  const Checker c(kName);
  c.rank("dy", dy, 2);
  c.compute_dtype("dy", dy);
  const std::int64_t columns = dy.shape[1];
  const DType accumulator = accumulator_of(dy.dtype);
  c.matches_contiguous("d_bias", d_bias, {columns}, accumulator);
  c.matches_contiguous("workspace", workspace, {kWorkspaceRows, columns}, accumulator);
}

Accesses BiasBackward::accesses() const {
  return {{dy.bytes(), d_bias.bytes()}, {d_bias.bytes(), workspace.bytes()}};
}

}  // namespace strata
