// Checks the tensors of the operators that pack and unpack rows, and lists the bytes that they
// touch. Kernels are in kernels/cpu/quantize.cpp and kernels/cuda/rows.

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
  c.dtype_in("q", q, {DType::kI8, DType::kE4M3});
  c.matches("q", q, x.shape, q.dtype);
  c.matches_contiguous("scale", scale, {x.shape[0]}, DType::kF32);
}

Accesses DequantizeRows::accesses() const { return {{q.bytes(), scale.bytes()}, {x.bytes()}}; }

}  // namespace strata
