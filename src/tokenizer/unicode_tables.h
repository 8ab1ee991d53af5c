// Tables of Unicode: categories of all code points, and what the normal form C needs. The source of
// the same name is written by scripts/unicode_tables.py, which says from what. unicode.h has the
// functions that read them.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::unicode {

/// Bits of a code point's category; 0 for controls, formats, and what is not assigned.
inline constexpr std::uint8_t kUpper = 1 << 0;   ///< Lu, Lt; with kLetter
inline constexpr std::uint8_t kLower = 1 << 1;   ///< Ll; with kLetter
inline constexpr std::uint8_t kLetter = 1 << 2;  ///< L
inline constexpr std::uint8_t kMark = 1 << 3;    ///< M
inline constexpr std::uint8_t kNumber = 1 << 4;  ///< N
inline constexpr std::uint8_t kPunctuation = 1 << 5;
inline constexpr std::uint8_t kSymbol = 1 << 6;
inline constexpr std::uint8_t kSpace = 1 << 7;  ///< White_Space

/// Bits of a code point's part in the normal form C; 0 for starters that never change and never
/// compose with what is before them.
inline constexpr std::uint8_t kCombiningOrder = 0x7f;  ///< rank of the combining class, 0: starter
inline constexpr std::uint8_t kMayChange = 0x80;       ///< NFC_Quick_Check is No or Maybe

/// A byte for each code point, in blocks of which equal ones are stored once.
inline constexpr std::size_t kBlockSize = 128;
inline constexpr std::size_t kBlocks = 0x110000 / kBlockSize;
struct PropertyTable {
  std::array<std::uint8_t, kBlocks> block_of;
  std::array<std::uint8_t, 256 * kBlockSize> values;

  [[nodiscard]] std::uint8_t operator[](char32_t value) const {
    return values[block_of[value / kBlockSize] * kBlockSize + value % kBlockSize];
  }
  /// The same for values below kBlockSize, which are the first block.
  [[nodiscard]] std::uint8_t of_ascii(unsigned char value) const { return values[value]; }
};
extern const PropertyTable kCategories;
extern const PropertyTable kNormalization;

/// A canonical decomposition: one step, and not of Hangul syllables, which are computed.
struct Decomposition {
  char32_t composed;
  char32_t first;
  char32_t second;  ///< 0 where there is only a first
};
/// All decompositions, by `composed` ascending.
extern const std::span<const Decomposition> kDecompositions;
/// Places in kDecompositions of those that are also compositions, by (first, second) ascending.
extern const std::span<const std::uint16_t> kCompositions;

}  // namespace strata::unicode
