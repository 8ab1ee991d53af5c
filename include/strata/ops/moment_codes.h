// The format of AdamW's moments in 8 bits (docs/decisions/0053-moments-in-8-bits.md): what a code
// and its scale stand for, and how a number is rounded to them. AdamW works in it on every backend;
// the functions here convert whole runs, for checkpoints of other moments.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "strata/base/dtype.h"

namespace strata {

/// So many parameters that follow each other share the scales of their m and v. Segments and shards
/// begin at multiples of it.
inline constexpr std::int64_t kMomentBlock = 64;
/// The dtype of codes and scales in memory.
inline constexpr DType kMomentCode = DType::kU8;
/// The bytes of the scales of a block: that of m, then that of v.
inline constexpr std::int64_t kMomentScales = 2;

/// Returns what a dtype of moments is called where people read it.
[[nodiscard]] constexpr std::string_view moment_name(DType dtype) {
  return dtype == kMomentCode ? "8bit" : name_of(dtype);
}

/// The moments, in the order of their scales.
enum class Moment : std::uint8_t { kFirst, kSecond };

// The format. A block's scale s is a byte and stands for 2^(s - 127). With k = the code, for m
// without its highest bit, which is the sign, a moment is n(k) 2^(s - 127), where
//   n(k) = k for k < 16, else (16 + k mod 16) 2^(floor(k / 16) - 1)
// So m has 3 bits of exponent, v has 4, and both have 4 of mantissa. Each number is an f32, and a
// bf16, exactly. s = 0 only with codes of zero.
//
// Encoding a block. With a the largest |x| of the block, as the bits of an f32:
//   t = floor((bits(a) + 2^19 - 1) / 2^23)
//   s = max(t - 10, 1) for m, max(t - 18, 1) for v; 0 if a is 0
// so that no x can be rounded beyond the last code. If t is 255 or more (a is not finite, or 31/32
// of the largest f32), s and all codes of the block are 0, and the block counts as not finite.
// With 16 = the f32 of 16 2^(s - 127), and 16 random bits r for each x (strata/ops/optimizer.h):
//   d = bits(|x| + 16) - bits(16)                 for |x| < 16, the sum rounded to f32
//       bits(|x|) - bits(16) + 2^23               else
//   k = floor((d + 8 r + 4) / 2^19)
// x becomes one of its two neighbours, the upper one with the probability of the fraction of the
// step that lies below x, within 2^-17. A code of v is at least 1 unless x is 0. The sign of m is
// that of x.

/// Writes the numbers that codes stand for. `scales` has kMomentScales bytes for each block of
/// them, the last of which may be short; `values` has as many elements as `codes`.
void decode_moments(Moment moment, std::span<const std::uint8_t> codes,
                    std::span<const std::uint8_t> scales, std::span<double> values);
/// Writes the codes of numbers, rounded to nearest instead of at random, and the scales of this
/// moment. Returns false if a block is not finite.
[[nodiscard]] bool encode_moments(Moment moment, std::span<const double> values,
                                  std::span<std::uint8_t> codes, std::span<std::uint8_t> scales);

}  // namespace strata
