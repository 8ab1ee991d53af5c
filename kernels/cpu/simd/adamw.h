#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

// The operations of strata::AdamW (strata/ops/optimizer.h), in its order, as a plain loop for the
// compiler to vectorise: without branches, so that the loop has one shape.

namespace strata::cpu {
namespace {

inline bool is_finite(float x) {
  return (__builtin_bit_cast(std::uint32_t, x) & 0x7f800000u) != 0x7f800000u;
}
inline bool is_finite(double x) {
  constexpr std::uint64_t kExponent = 0x7ff0000000000000u;
  return (__builtin_bit_cast(std::uint64_t, x) & kExponent) != kExponent;
}

/// bits(w) = (hi << 16) + sign-extended lo modulo 2^32.
inline float join(Bf16 high, std::int16_t low) {
  const auto bits = (static_cast<std::uint32_t>(high.bits) << 16) +
                    static_cast<std::uint32_t>(static_cast<std::int32_t>(low));
  return __builtin_bit_cast(float, bits);
}

// Inlined always: a call in the loop would keep it from becoming vectors.
template <class A>
[[gnu::always_inline]] inline A updated(A w, A grad, A& m, A& v, const AdamWFactors<A>& f) {
  const A g = grad * f.grad_factor;
  m = fused(f.beta1, m, f.one_minus_beta1 * g);
  v = fused(f.beta2, v, (f.one_minus_beta2 * g) * g);
  const A u = (m / f.correction1) / (root(v / f.correction2) + f.eps);
  w = fused(-f.lr_decay, w, w);
  return fused(-f.lr, u, w);
}

template <class A, class G>
bool update_whole(A* __restrict weight, A* __restrict m, A* __restrict v, const G* __restrict grad,
                  std::int64_t count, const AdamWFactors<A> f) {
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const A w = updated(weight[i], static_cast<A>(widen(grad[i])), m[i], v[i], f);
    weight[i] = w;
    bad |= static_cast<std::uint32_t>(!is_finite(w));
  }
  return bad == 0;
}

template <class G>
bool update_split(Bf16* __restrict weight, std::int16_t* __restrict low, float* __restrict m,
                  float* __restrict v, const G* __restrict grad, std::int64_t count,
                  const AdamWFactors<float> f) {
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = static_cast<float>(widen(grad[i]));
    const float w = updated(join(weight[i], low[i]), g, m[i], v[i], f);
    bad |= static_cast<std::uint32_t>(!is_finite(w));
    const auto bits = __builtin_bit_cast(std::uint32_t, w);
    weight[i].bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    low[i] = static_cast<std::int16_t>(bits);  // modulo 2^16: bits - (hi << 16)
  }
  return bad == 0;
}

template <class G>
bool adamw_with(const AdamWRange& r) {
  const std::int64_t begin = r.begin;
  const std::int64_t count = r.end - r.begin;
  const G* grad = static_cast<const G*>(r.grad) + begin;
  if (r.weight_dtype == DType::kF64) {
    return update_whole(static_cast<double*>(r.weight) + begin, static_cast<double*>(r.m) + begin,
                        static_cast<double*>(r.v) + begin, grad, count, r.f64);
  }
  float* m = static_cast<float*>(r.m) + begin;
  float* v = static_cast<float*>(r.v) + begin;
  if (r.weight_dtype == DType::kF32) {
    return update_whole(static_cast<float*>(r.weight) + begin, m, v, grad, count, r.f32);
  }
  return update_split(static_cast<Bf16*>(r.weight) + begin, r.low + begin, m, v, grad, count,
                      r.f32);
}

bool adamw(const AdamWRange& r) {
  switch (r.grad_dtype) {
    case DType::kF64: return adamw_with<double>(r);
    case DType::kF32: return adamw_with<float>(r);
    default: return adamw_with<Bf16>(r);
  }
}

}  // namespace
}  // namespace strata::cpu
