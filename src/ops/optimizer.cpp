// Checks the tensors of squared norms and AdamW and lists the bytes that they touch. Kernels are in
// kernels/cpu/optimizer.cpp and in two files of kernels/cuda/optimizer.

#include "strata/ops/optimizer.h"

#include "check.h"

namespace strata {

void SquaredNorm::check() const {
  const Checker c(kName);
  c.rank("x", x, 1);
  c.compute_dtype("x", x);
  c.contiguous("x", x);
  c.matches_contiguous("partial", partial, {SquaredNorm::partials(x.elements())}, DType::kF64);
}

Accesses SquaredNorm::accesses() const { return {{x.bytes()}, {partial.bytes()}}; }

void CastSquaredNorm::check() const {
  const Checker c(kName);
  c.rank("x", x, 1);
  c.dtype_in("x", x, {DType::kF64, DType::kF32});
  c.contiguous("x", x);
  c.compute_dtype("y", y);
  c.matches_contiguous("y", y, x.shape, y.dtype);
  c.require(x.data != y.data || x.dtype == y.dtype || x.elements() == 0, "y",
            "must not be x itself when the dtypes differ");
  c.matches_contiguous("partial", partial, {SquaredNorm::partials(x.elements())}, DType::kF64);
}

Accesses CastSquaredNorm::accesses() const { return {{x.bytes()}, {y.bytes(), partial.bytes()}}; }

void AdamW::check() const {
  const Checker c(kName);
  c.rank("weight", weight, 1);
  c.compute_dtype("weight", weight);
  c.contiguous("weight", weight);
  const Shape& shape = weight.shape;
  const DType accumulator = accumulator_of(weight.dtype);
  if (weight.dtype == DType::kBF16) {
    c.matches_contiguous("low", low, shape, DType::kI16);
  } else {
    c.require(!low, "low", "must be absent: only bf16 weights are split");
  }
  const bool small = m.dtype == DType::kBF16 || m.dtype == kMomentCode;
  c.matches_contiguous("m", m, shape, small && accumulator == DType::kF32 ? m.dtype : accumulator);
  c.matches_contiguous("v", v, shape, m.dtype);
  if (m.dtype == kMomentCode) {
    const std::int64_t blocks = (shape[0] + kMomentBlock - 1) / kMomentBlock;
    c.matches_contiguous("scale", scale, {blocks, kMomentScales}, kMomentCode);
    c.require(rounding_begin % kMomentBlock == 0, "rounding_begin", "must begin a block of codes");
  } else {
    c.require(!scale, "scale", "must be absent: only codes have scales");
  }
  c.compute_dtype("grad", grad);
  c.matches_contiguous("grad", grad, shape, grad.dtype);
  c.require(scalars != nullptr, "scalars", "are missing");
  c.require(rounding_begin >= 0, "rounding_begin", "must not be negative");
  c.matches_contiguous("nonfinite", nonfinite, {1}, DType::kI32);
}

Accesses AdamW::accesses() const {
  const ByteRange numbers{reinterpret_cast<const std::byte*>(scalars), sizeof(AdamWScalars)};
  return {{weight.bytes(), low.bytes(), m.bytes(), v.bytes(), scale.bytes(), grad.bytes(), numbers},
          {weight.bytes(), low.bytes(), m.bytes(), v.bytes(), scale.bytes(), nonfinite.bytes()}};
}

}  // namespace strata
