// This file rounds a row to int8 with a scale, and back. The CPU operators that store int8 include
// it: those of activations and those of keys and values. The bits are the definition of
// strata/ops/quantize.h: a row of zeros gets levels of 0, and a row with an infinity or a NaN the
// scale NaN, so that it comes back as NaN.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/typed.h"
#include "strata/ops/quantize.h"

namespace strata::cpu {

/// Returns the scale of a row, see QuantizeRows. The bits of magnitudes are in the order of the
/// numbers, with infinity and then NaNs above them.
template <Compute X>
float scale_of_row(const X* x, std::int64_t width) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  std::uint32_t largest = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x[c])) & 0x7fffffffu;
    largest = std::max(largest, bits);
  }
  if (largest >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(largest) / static_cast<float>(QuantizeRows::kLevels);
}

/// Rounds `width` elements to levels q, and returns their scale. A level is below 2^8, however few
/// bits a tiny scale has, so adding 1.5 * 2^(digits - 1) rounds it to a whole number, halves to
/// even.
template <Compute X>
float quantize_row(const X* x, std::int64_t width, std::int8_t* q) {
  using A = Accumulator<X>;
  constexpr std::int32_t kMost = QuantizeRows::kLevels;
  constexpr A kWhole = A{3} * (std::uint64_t{1} << (std::numeric_limits<A>::digits - 2));
  const float scale = scale_of_row(x, width);
  if (!(scale > 0)) {
    std::fill_n(q, width, std::int8_t{0});
    return scale;
  }
  for (std::int64_t c = 0; c < width; ++c) {
    const A level = static_cast<A>(x[c]) / A{scale} + kWhole - kWhole;
    q[c] = static_cast<std::int8_t>(std::clamp(static_cast<std::int32_t>(level), -kMost, kMost));
  }
  return scale;
}

/// Computes x = q * scale, rounded once. q may also be codes in e4m3.
template <class Code, Compute X>
void dequantize_row(const Code* q, float scale, std::int64_t width, X* x) {
  using A = Accumulator<X>;
  for (std::int64_t c = 0; c < width; ++c) x[c] = X(static_cast<A>(q[c]) * A{scale});
}

}  // namespace strata::cpu
