// Checks the tensors of the int8 operators and lists the bytes that they touch. Kernels are in
// kernels/cpu/quantize.cpp and kernels/cuda/rows.

#include "strata/ops/quantize.h"

#include "check.h"

namespace strata {

void QuantizeRows::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches("q", q, x.shape, DType::kI8);
  c.matches_contiguous("scale", scale, {x.shape[0]}, DType::kF32);
}

Accesses QuantizeRows::accesses() const { return {{x.bytes()}, {q.bytes(), scale.bytes()}}; }

void DequantizeRows::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches("q", q, x.shape, DType::kI8);
  c.matches_contiguous("scale", scale, {x.shape[0]}, DType::kF32);
}

Accesses DequantizeRows::accesses() const { return {{q.bytes(), scale.bytes()}, {x.bytes()}}; }

}  // namespace strata
