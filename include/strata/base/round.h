// Rounding of f64 to bf16 and e4m3, in one step: by way of f32 it would be rounded twice. Operators
// that promise one rounding use it; conversions of whole tensors, strata/base/convert.h, round
// twice.
#pragma once

#include <bit>
#include <cstdint>

#include "strata/base/dtype.h"

namespace strata {

/// Returns the f32 from which x is rounded to a dtype of fewer bits as if from x itself: x rounded
/// to odd, so that the last bit remembers whether anything was lost.
[[nodiscard]] constexpr float rounded_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || nearest != nearest) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double magnitude = x < 0 ? -x : x;
  const double rounded_magnitude = nearest < 0 ? -double{nearest} : double{nearest};
  if (rounded_magnitude > magnitude) --bits;  // the f32 below it in magnitude
  return std::bit_cast<float>(bits | 1u);
}

/// Returns x rounded to bf16 once, to nearest even.
[[nodiscard]] constexpr Bf16 rounded_to_bf16(double x) { return Bf16(rounded_to_odd(x)); }

/// Returns x rounded to e4m3 once, to nearest even; see E4M3.
[[nodiscard]] constexpr E4M3 rounded_to_e4m3(double x) { return E4M3(rounded_to_odd(x)); }

}  // namespace strata
