// Checks the tensors of dropout and lists the bytes that it touches. Kernels are in
// kernels/cpu/dropout.cpp and kernels/cuda/rows/dropout.cu.

#include "strata/ops/dropout.h"

#include "check.h"

namespace strata {

void Dropout::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  if (added) c.matches("added", added, x.shape, x.dtype);
  c.matches("y", y, x.shape, x.dtype);
  c.require(mask.rate >= 0 && mask.rate < 1, "mask.rate", "must be from 0 to below 1");
  c.require(mask.first >= 0, "mask.first", "must not be negative");
}

Accesses Dropout::accesses() const { return {{x.bytes(), added.bytes()}, {y.bytes()}}; }

}  // namespace strata
