// Checks the tensors of the e4m3 operators and lists the bytes that they touch. Kernels are in
// kernels/cpu/fp8.cpp and kernels/cuda/rows.

#include "strata/ops/fp8.h"

#include "check.h"

namespace strata {

void QuantizeFp8Rows::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches("q", q, x.shape, DType::kE4M3);
  c.matches_contiguous("scale", scale, {x.shape[0]}, DType::kF32);
}

Accesses QuantizeFp8Rows::accesses() const { return {{x.bytes()}, {q.bytes(), scale.bytes()}}; }

void QuantizeFp8Columns::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.matches("q", q, {x.shape[1], x.shape[0]}, DType::kE4M3);
  c.matches_contiguous("scale", scale, {x.shape[1]}, DType::kF32);
}

Accesses QuantizeFp8Columns::accesses() const { return {{x.bytes()}, {q.bytes(), scale.bytes()}}; }

void TransposeFp8::check() const {
  const Checker c(kName);
  c.rank("w", w, 2);
  c.dtype_in("w", w, {DType::kE4M3});
  c.matches_contiguous("scale", scale, {w.shape[0]}, DType::kF32);
  c.matches("t", t, {w.shape[1], w.shape[0]}, DType::kE4M3);
  c.matches_contiguous("t_scale", t_scale, {w.shape[1]}, DType::kF32);
}

Accesses TransposeFp8::accesses() const {
  return {{w.bytes(), scale.bytes()}, {t.bytes(), t_scale.bytes()}};
}

void CountFp8::check() const {
  const Checker c(kName);
  c.rank("x", x, 2);
  c.compute_dtype("x", x);
  c.rank("q", q, 2);
  const bool turned = q.shape != x.shape;
  c.matches("q", q, turned ? Shape{x.shape[1], x.shape[0]} : x.shape, DType::kE4M3);
  c.matches_contiguous("counts", counts, {kCounts}, DType::kF64);
}

Accesses CountFp8::accesses() const {
  return {{x.bytes(), q.bytes(), counts.bytes()}, {counts.bytes()}};
}

}  // namespace strata
