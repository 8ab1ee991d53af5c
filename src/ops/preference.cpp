// Checks the tensors of the preference loss and lists the bytes that it touches. Kernels are in
// kernels/cpu/preference.cpp and kernels/cuda/rows/preference.cu.

#include "strata/ops/preference.h"

#include "check.h"

namespace strata {

void PreferenceLoss::check() const {
  const Checker c(kName);
  c.rank("token_loss", token_loss, 1);
  const DType accumulator = token_loss.dtype;
  c.dtype_in("token_loss", token_loss, {DType::kF32, DType::kF64});
  const std::int64_t n = token_loss.elements();
  c.matches_contiguous("token_loss", token_loss, {n}, accumulator);
  c.matches_contiguous("targets", targets, {n}, DType::kI32);
  c.rank("pairs", pairs, 2);
  c.matches_contiguous("pairs", pairs, {pairs.shape[0], kPairColumns}, DType::kI32);
  if (reference_logs) {
    c.matches_contiguous("reference_logs", reference_logs, {pairs.shape[0], 2}, DType::kF64);
  } else if (rule.needs_reference()) {
    c.matches_contiguous("reference", reference, {n}, accumulator);
  }
  c.rank("figures", figures, 2);
  c.matches_contiguous("figures", figures, {figures.shape[0], kFigures}, accumulator);
  c.require(figures.shape[0] >= pairs.shape[0], "figures", "must have a row for each pair");
  if (!token_scale) return;
  c.matches_contiguous("token_scale", token_scale, {n}, accumulator);
  c.matches_contiguous("grad_scale", grad_scale, {1}, accumulator);
}

Accesses PreferenceLoss::accesses() const {
  return {{token_loss.bytes(), reference.bytes(), reference_logs.bytes(), targets.bytes(),
           pairs.bytes(), grad_scale.bytes()},
          {figures.bytes(), token_scale.bytes()}};
}

}  // namespace strata
