// Rounding of f64 to bf16, in one step: by way of f32 it would be rounded twice. Operators that
// promise one rounding use it; conversions of whole tensors, strata/base/convert.h, round twice.
#pragma once

#include <bit>
#include <cstdint>

#include "strata/base/dtype.h"

namespace strata {

/// Returns x rounded to bf16 once, to nearest even. The f32 in between is rounded to odd: its last
/// bit remembers whether anything was lost.
[[nodiscard]] constexpr Bf16 rounded_to_bf16(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || nearest != nearest) return Bf16(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double magnitude = x < 0 ? -x : x;
  const double rounded_magnitude = nearest < 0 ? -double{nearest} : double{nearest};
  if (rounded_magnitude > magnitude) --bits;  // the f32 below it in magnitude
  return Bf16(std::bit_cast<float>(bits | 1u));
}

}  // namespace strata
