// Checks the tensors of the SwiGLU operators and lists the bytes that they touch. Kernels are in
// kernels/cpu/swiglu.cpp and kernels/cuda/rows.

#include "strata/ops/swiglu.h"

#include "check.h"

namespace strata {

void SwigluForward::check() const {
  const Checker c(kName);
  c.rank("y", y, 2);
  c.compute_dtype("y", y);
  c.matches("gate_up", gate_up, {y.shape[0], 2 * y.shape[1]}, y.dtype);
}

Accesses SwigluForward::accesses() const { return {{gate_up.bytes()}, {y.bytes()}}; }

void SwigluBackward::check() const {
  const Checker c(kName);
  c.rank("d_y", d_y, 2);
  c.compute_dtype("d_y", d_y);
  const Shape wide{d_y.shape[0], 2 * d_y.shape[1]};
  c.matches("gate_up", gate_up, wide, d_y.dtype);
  c.matches("d_gate_up", d_gate_up, wide, d_y.dtype);
  c.matches("y", y, d_y.shape, d_y.dtype);
}

Accesses SwigluBackward::accesses() const {
  return {{d_y.bytes(), gate_up.bytes()}, {d_gate_up.bytes(), y.bytes()}};
}

}  // namespace strata
