// The 4-bit NormalFloat format of weights (Dettmers et al., "QLoRA", 2023), whose scales are
// quantised themselves, and how a matrix is rounded to it. Numbers, their order and their bits are
// those of bitsandbytes with double quantisation: blocks of 64 elements, groups of 256 blocks.
//
// An element is one of 16 levels times the scale of its block, the largest magnitude in it. The
// levels are quantiles of a normal distribution, with 0 among them, so that each is about as often
// the nearest. A scale, less the mean of all scales of the matrix (the offset), is one of 256
// values times the largest magnitude in its group. These values have a decimal exponent and a
// fraction that gets finer with it. An element takes 4 + 8 / 64 + 32 / 16384 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace strata {

inline constexpr std::int64_t kNf4Block = 64;   ///< elements that share a scale
inline constexpr std::int64_t kNf4Group = 256;  ///< scales that share theirs
inline constexpr std::size_t kNf4Levels = 16;
inline constexpr std::size_t kNf4ScaleValues = 256;
/// The f32 numbers that belong to a matrix: its offset, the levels and the values of scales.
inline constexpr std::int64_t kNf4Tables = 1 + kNf4Levels + kNf4ScaleValues;

/// The levels and the values of scales, both from the smallest to the largest.
struct Nf4Values {
  std::array<float, kNf4Levels> levels{};
  std::array<float, kNf4ScaleValues> scale_values{};
};
/// Computes them.
[[nodiscard]] Nf4Values nf4_values();

/// Writes the codes of a block, two in a byte as DequantizeNf4 has them, and returns its scale. An
/// element becomes the nearest level, of two the lower one; a block of zeros becomes zeros.
/// `block` has kNf4Block finite numbers, `codes` half as many bytes.
float quantize_nf4_block(const Nf4Values& values, std::span<const float> block,
                         std::span<std::uint8_t> codes);

/// Returns the offset of all scales of a matrix: their mean.
[[nodiscard]] float nf4_offset(std::span<const float> scales);
/// Writes the codes of a group of at most kNf4Group scales, as many as `codes` has, and returns the
/// scale that they share.
float quantize_nf4_scales(const Nf4Values& values, float offset, std::span<const float> scales,
                          std::span<std::uint8_t> codes);

/// Writes what DequantizeNf4 reads of a matrix beside its codes and scales: the offset, the levels
/// and the values of scales. `tables` has kNf4Tables numbers.
void write_nf4_tables(const Nf4Values& values, float offset, std::span<float> tables);

}  // namespace strata
