// This file computes exp of many numbers, for cross-entropy, SwiGLU's sigmoid and softmax.h; the
// variants include it. For f32 it is within 1.5 units in the last place and has the same bits in
// every variant. The f64 loop is for proofs, not for speed.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

/// Returns exp(x) = 2^n exp(r), where n is the integer next to x / ln 2, |r| <= ln(2) / 2, and a
/// polynomial gives exp(r) - 1 - r (interpolated at Chebyshev points, relative error 1e-8). The
/// result is within 1.5 units in the last place, denormal numbers included; infinities and NaN come
/// out as they should. 2^n is two factors: one alone has no room for the n of denormal and of
/// infinite results.
[[gnu::always_inline]] inline VectorF32::Register exp_of(VectorF32::Register x) {
  using V = VectorF32;
  constexpr float kLn2High = 0.693359375f;  // it has 10 bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194442e-4f;
  const auto rounder = V::broadcast(12582912.0f);  // adding 1.5 * 2^23 rounds to an integer
  x = V::largest(V::broadcast(-104.0f), x);        // exp is 0 below it
  x = V::smallest(V::broadcast(89.0f), x);         // and infinite above it
  const auto shifted = V::add(V::multiply(x, V::broadcast(1.44269504f)), rounder);
  const auto whole = V::subtract(shifted, rounder);
  const auto high = V::subtract(x, V::multiply(whole, V::broadcast(kLn2High)));
  const auto r = V::subtract(high, V::multiply(whole, V::broadcast(kLn2Low)));
  auto q = V::broadcast(0.0013926184f);
  for (const float c : {0.00836317893f, 0.0416665561f, 0.166665763f, 0.5f}) {
    q = V::add(V::multiply(q, r), V::broadcast(c));
  }
  const auto p = V::add(r, V::multiply(V::multiply(r, r), q));
  return V::times_power(V::add(V::broadcast(1.0f), p), shifted, rounder);
}

[[gnu::always_inline]] inline VectorF64::Register exp_of(VectorF64::Register x) {
  double each[VectorF64::kWidth];
  VectorF64::store(each, x);
  for (double& e : each) e = __builtin_exp(e);
  return VectorF64::load(each);
}

/// Replaces x by exp(x).
template <class A>
void exponentials(A* x, std::int64_t count) {
  using V = typename VectorOf<A>::Type;
  std::int64_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) V::store(x + i, exp_of(V::load(x + i)));
  if (i == count) return;
  A rest[V::kWidth] = {};
  for (std::int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  V::store(rest, exp_of(V::load(rest)));
  for (std::int64_t j = i; j < count; ++j) x[j] = rest[j - i];
}

}  // namespace
}  // namespace strata::cpu
