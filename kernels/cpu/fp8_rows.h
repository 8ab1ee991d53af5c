// This file rounds a row to e4m3 with a scale. The CPU operators that store e4m3 include it. The
// bits are the definition of strata/ops/fp8.h.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cpu/typed.h"
#include "strata/ops/fp8.h"

namespace strata::cpu {

template <>
[[nodiscard]] inline E4M3 rounded<E4M3, double>(double x) {
  return rounded_to_e4m3(x);
}

/// Returns the bits of the magnitude of x as f32.
template <Compute X>
[[nodiscard]] inline std::uint32_t magnitude_bits(X x) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0x7fffffffu;
}

/// Returns x / scale in e4m3. The quotient by a power of two is exact, but for numbers so small
/// that they become zeros.
template <Compute X>
[[nodiscard]] inline E4M3 fp8_code(X x, float scale) {
  using A = Accumulator<X>;
  return rounded<E4M3>(static_cast<A>(x) / A{scale});
}

/// Rounds `width` elements, element c being x(c), to codes q, and returns their scale. x is called
/// twice for each.
template <class Element>
float quantize_fp8_row(std::int64_t width, const Element& x, E4M3* q) {
  std::uint32_t largest = 0;
  for (std::int64_t c = 0; c < width; ++c) largest = std::max(largest, magnitude_bits(x(c)));
  const float scale = fp8_scale(largest);
  for (std::int64_t c = 0; c < width; ++c) q[c] = fp8_code(x(c), scale);
  return scale;
}

}  // namespace strata::cpu
