// Checks the tensors of squared norms and updates and lists the bytes that they touch. Kernels are
// in kernels/cpu/optimizer.cpp and in kernels/cuda/optimizer.

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

namespace {

/// Checks what all updates have: masters, a gradient, numbers and a flag.
template <class Update>
void check_update(const Checker& c, const Update& u) {
  c.rank("weight", u.weight, 1);
  c.compute_dtype("weight", u.weight);
  c.contiguous("weight", u.weight);
  const Shape& shape = u.weight.shape;
  if (u.low) {
    c.require(u.weight.dtype == DType::kBF16, "low", "must be absent: only bf16 weights are split");
    c.matches_contiguous("low", u.low, shape, DType::kI16);
  }
  c.compute_dtype("grad", u.grad);
  c.matches_contiguous("grad", u.grad, shape, u.grad.dtype);
  c.require(u.scalars != nullptr, "scalars", "are missing");
  c.require(u.rounding_begin >= 0, "rounding_begin", "must not be negative");
  c.matches_contiguous("nonfinite", u.nonfinite, {1}, DType::kI32);
}

ByteRange bytes_of(const AdamWScalars* scalars) {
  return {reinterpret_cast<const std::byte*>(scalars), sizeof(AdamWScalars)};
}

}  // namespace

void AdamW::check() const {
  const Checker c(kName);
  check_update(c, *this);
  const Shape& shape = weight.shape;
  const DType accumulator = accumulator_of(weight.dtype);
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
}

Accesses AdamW::accesses() const {
  return {{weight.bytes(), low.bytes(), m.bytes(), v.bytes(), scale.bytes(), grad.bytes(),
           bytes_of(scalars)},
          {weight.bytes(), low.bytes(), m.bytes(), v.bytes(), scale.bytes(), nonfinite.bytes()}};
}

Cost AdamW::cost() const {
  if (rare) return {.kind = CostKind::kRare};
  return {.coded = m.dtype == kMomentCode ? m.elements() : 0};
}

void Momentum::check() const {
  const Checker c(kName);
  check_update(c, *this);
  const DType accumulator = accumulator_of(weight.dtype);
  const bool small = m.dtype == DType::kBF16 && accumulator == DType::kF32;
  c.matches_contiguous("m", m, weight.shape, small ? m.dtype : accumulator);
}

Accesses Momentum::accesses() const {
  return {{weight.bytes(), low.bytes(), m.bytes(), grad.bytes(), bytes_of(scalars)},
          {weight.bytes(), low.bytes(), m.bytes(), nonfinite.bytes()}};
}

}  // namespace strata
