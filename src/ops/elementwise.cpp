// Checks the tensors of add, accumulate, cast and fill and lists the bytes that they touch. Kernels
// are in kernels/cpu/elementwise.cpp and kernels/cuda/rows.

#include "strata/ops/elementwise.h"

#include "check.h"

namespace strata {

void ResidualAdd::check() const {
  const Checker c(kName);
  c.rank("a", a, 2);
  c.compute_dtype("a", a);
  c.matches("b", b, a.shape, a.dtype);
  c.matches("y", y, a.shape, a.dtype);
}

Accesses ResidualAdd::accesses() const { return {{a.bytes(), b.bytes()}, {y.bytes()}}; }

void Accumulate::check() const {
  const Checker c(kName);
  c.rank("x", x, 1);
  c.dtype_in("x", x, {DType::kF64, DType::kF32});
  c.contiguous("x", x);
  c.matches_contiguous("sum", sum, x.shape, x.dtype);
}

Accesses Accumulate::accesses() const { return {{x.bytes(), sum.bytes()}, {sum.bytes()}}; }

void Cast::check() const {
  const Checker c(kName);
  c.rank("x", x, 1);
  c.contiguous("x", x);
  if (x.dtype != DType::kI32 || y.dtype != DType::kI32) {
    c.compute_dtype("x", x);
    c.compute_dtype("y", y);
  }
  c.matches_contiguous("y", y, x.shape, y.dtype);
  c.require(x.data != y.data || x.dtype == y.dtype || x.elements() == 0, "y",
            "must not be x itself when the dtypes differ");
}

Accesses Cast::accesses() const { return {{x.bytes()}, {y.bytes()}}; }

void Fill::check() const {
  const Checker c(kName);
  c.rank("x", x, 1);
  c.dtype_in("x", x, {DType::kF64, DType::kF32, DType::kBF16, DType::kI32});
  c.contiguous("x", x);
}

Accesses Fill::accesses() const { return {{}, {x.bytes()}}; }

}  // namespace strata
