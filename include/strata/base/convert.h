// Conversions between f64 values and tensors of the training dtypes, element by element on the
// host, and the split of an f32 master weight into two 16-bit halves. Rotary tables, the loss scale
// and the training state use them, where speed does not count; kernels convert on their own.
// Nothing here keeps memory beyond the call, and wrong dtypes or sizes throw ShapeError.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/base/tensor.h"

namespace strata {

/// Writes f64 values as `dtype` (f64, f32 or bf16, rounded to nearest even) to the front of `out`.
/// bf16 is rounded twice, by way of f32. Throws ShapeError if `out` is too small or `dtype` is
/// another.
void store_as(std::span<const double> values, DType dtype, std::span<std::byte> out);
/// Reads a tensor of f64, f32 or bf16 on the host as f64, in row-major order. Throws ShapeError if
/// it is not contiguous or has another dtype.
[[nodiscard]] std::vector<double> load_as_double(const ConstTensorView& tensor);

/// A split master weight: the high half is the bf16 weight that is streamed, the signed low half is
/// what it lacks to the f32 value. Splitting and joining gives back every bit pattern (sums wrap
/// modulo 2^32). The high half is the value rounded to nearest, ties away from zero.
struct SplitF32 {
  std::uint16_t high = 0;
  std::int16_t low = 0;
};
/// Splits an f32 value; see SplitF32.
[[nodiscard]] constexpr SplitF32 split_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto high = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
  const auto low = static_cast<std::uint16_t>(bits - (static_cast<std::uint32_t>(high) << 16));
  return {high, std::bit_cast<std::int16_t>(low)};
}
/// Returns the value that split_f32 took apart.
[[nodiscard]] float join_f32(SplitF32 parts);

}  // namespace strata
