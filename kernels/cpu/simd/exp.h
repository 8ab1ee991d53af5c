// This file computes exp of many numbers, for the softmax of attention and cross-entropy and for
// SwiGLU's sigmoid; the variants include it. For f32 it is a loop without calls that the compiler
// vectorises, within 1.5 units in the last place and with the same bits in every variant. The f64
// loop is for proofs, not for speed.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

/// Returns exp(x) = 2^n exp(r), where n is the integer next to x / ln 2, |r| <= ln(2) / 2, and a
/// polynomial gives exp(r) - 1 - r (interpolated at Chebyshev points, relative error 1e-8). The
/// result is within 1.5 units in the last place, denormal numbers included; infinities and NaN come
/// out as they should.
[[gnu::always_inline]] inline float exp_of(float x) {
  constexpr float kLowest = -104.0f;  // exp is 0 below it, and infinite above kHighest
  constexpr float kHighest = 89.0f;
  constexpr float kRounder = 12582912.0f;   // adding 1.5 * 2^23 rounds to an integer
  constexpr float kLn2High = 0.693359375f;  // it has 10 bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194442e-4f;
  x = x < kLowest ? kLowest : x;
  x = x > kHighest ? kHighest : x;
  const float shifted = x * 1.44269504f + kRounder;
  const float whole = shifted - kRounder;
  const float r = (x - whole * kLn2High) - whole * kLn2Low;
  float q = 0.0013926184f;
  q = q * r + 0.00836317893f;
  q = q * r + 0.0416665561f;
  q = q * r + 0.166665763f;
  q = q * r + 0.5f;
  const float p = 1.0f + (r + r * r * q);
  // 2^n is two factors: one alone has no room for the n of denormal and of infinite results.
  const std::int32_t n =
      __builtin_bit_cast(std::int32_t, shifted) - __builtin_bit_cast(std::int32_t, kRounder);
  const std::int32_t half = n / 2;
  const float first = __builtin_bit_cast(float, static_cast<std::uint32_t>(half + 127) << 23);
  const float second = __builtin_bit_cast(float, static_cast<std::uint32_t>(n - half + 127) << 23);
  return p * first * second;
}

void exp_f32(float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = exp_of(x[i]);
}

void exp_f64(double* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = __builtin_exp(x[i]);
}

}  // namespace
}  // namespace strata::cpu
