// Checks the tensors of the operator that draws tokens, and lists the bytes that it touches. The
// kernel is in kernels/cpu/sampling.cpp.

#include "strata/ops/sampling.h"

#include "check.h"

namespace strata {

void SampleTokens::check() const {
  const Checker c(kName);
  c.rank("logits", logits, 2);
  c.compute_dtype("logits", logits);
  const std::int64_t n = logits.shape[0];
  c.matches_contiguous("rows", rows, {n, static_cast<std::int64_t>(sizeof(SamplingRow))},
                       DType::kU8);
  if (given(seen)) {
    c.rank("seen", seen, 1);
    c.matches_contiguous("seen", seen, {seen.shape[0]}, DType::kI32);
  }
  c.matches_contiguous("token", token, {n}, DType::kI32);
  c.matches_contiguous("logprob", logprob, {n}, accumulator_of(logits.dtype));
}

Accesses SampleTokens::accesses() const {
  return {{logits.bytes(), rows.bytes(), seen.bytes()}, {token.bytes(), logprob.bytes()}};
}

}  // namespace strata
