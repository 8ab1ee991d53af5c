// Checks the tensors of the operator that decodes 4-bit weights and lists the bytes that it
// touches. Kernels are in kernels/cpu/nf4.cpp and kernels/cuda/rows/nf4.cu.

#include "strata/ops/nf4.h"

#include "check.h"

namespace strata {

void DequantizeNf4::check() const {
  const Checker c(kName);
  c.rank("y", y, 1);
  c.compute_dtype("y", y);
  c.contiguous("y", y);
  const std::int64_t n = y.elements();
  c.require(n % kNf4Block == 0, "y", "has no whole number of blocks");
  const std::int64_t in_group = kNf4Block * kNf4Group;
  c.matches_contiguous("codes", codes, {n / 2}, DType::kU8);
  c.matches_contiguous("scales", scales, {n / kNf4Block}, DType::kU8);
  c.matches_contiguous("groups", groups, {(n + in_group - 1) / in_group}, DType::kF32);
  c.matches_contiguous("tables", tables, {kNf4Tables}, DType::kF32);
}

Accesses DequantizeNf4::accesses() const {
  return {{codes.bytes(), scales.bytes(), groups.bytes(), tables.bytes()}, {y.bytes()}};
}

}  // namespace strata
