#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/base/tensor.h"

namespace strata {

/// Writes f64 values as `dtype` (f64, f32 or bf16, rounded to nearest even) into `out`, which must
/// be large enough (ShapeError).
void store_as(std::span<const double> values, DType dtype, std::span<std::byte> out);
/// Reads a contiguous host tensor of f64, f32 or bf16 as f64.
[[nodiscard]] std::vector<double> load_as_double(const ConstTensorView& tensor);

/// The split master weight (bf16 high half that is streamed, signed low half): exact for every bit
/// pattern, modulo 2^32; rounds to nearest, ties away from zero.
struct SplitF32 {
  std::uint16_t high = 0;
  std::int16_t low = 0;
};
[[nodiscard]] constexpr SplitF32 split_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto high = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
  const auto low = static_cast<std::uint16_t>(bits - (static_cast<std::uint32_t>(high) << 16));
  return {high, std::bit_cast<std::int16_t>(low)};
}
[[nodiscard]] float join_f32(SplitF32 parts);

}  // namespace strata
