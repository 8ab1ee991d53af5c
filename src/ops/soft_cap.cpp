// Checks the tensors of the smooth cap and lists the bytes that it touches. Kernels are in
// kernels/cpu/soft_cap.cpp and kernels/cuda/rows/soft_cap.cu.

#include "strata/ops/soft_cap.h"

#include "check.h"

namespace strata {

void SoftCapForward::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches("y", y, x.shape, x.dtype);
  c.require(cap > 0, "cap", "must be above 0");
}

Accesses SoftCapForward::accesses() const { return {{x.bytes()}, {y.bytes()}}; }

void SoftCapBackward::check() const {
  const Checker c(kName);
  c.rank("dy", dy, 2);
  c.compute_dtype("dy", dy);
  c.matches("y", y, dy.shape, dy.dtype);
  c.matches("dx", dx, dy.shape, dy.dtype);
  c.require(cap > 0, "cap", "must be above 0");
}

Accesses SoftCapBackward::accesses() const { return {{dy.bytes(), y.bytes()}, {dx.bytes()}}; }

}  // namespace strata
