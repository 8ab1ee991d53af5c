// Checks the tensors of the cross-entropy operator and lists the bytes that it touches. Kernels are
// in kernels/cpu/cross_entropy.cpp and kernels/cuda/rows.

#include "strata/ops/cross_entropy.h"

#include "check.h"

namespace strata {

void CrossEntropy::check() const {
  const Checker c(kName);
  c.rank("logits", logits, 2);
  c.compute_dtype("logits", logits);
  c.require(logits.shape[1] > 0, "logits", "must have at least one column");
  const std::int64_t n = logits.shape[0];
  const DType accumulator = accumulator_of(logits.dtype);
  c.matches_contiguous("targets", targets, {n}, DType::kI32);
  c.matches_contiguous("loss", loss, {n}, accumulator);
  c.matches_contiguous("lse", lse, {n}, accumulator);
  if (!d_logits) return;
  c.matches("d_logits", d_logits, logits.shape, logits.dtype);
  c.require(n <= 1 || d_logits.row_stride == logits.row_stride, "d_logits",
            "must have the row stride of logits");
  const bool each = grad_scale.elements() != 1;
  c.matches_contiguous("grad_scale", grad_scale, {each ? n : 1}, accumulator);
}

Accesses CrossEntropy::accesses() const {
  return {{logits.bytes(), targets.bytes(), grad_scale.bytes()},
          {loss.bytes(), lse.bytes(), d_logits.bytes()}};
}

}  // namespace strata
