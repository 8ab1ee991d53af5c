// What the tokenizer has to know of Unicode: UTF-8, the general categories that patterns of
// pre-tokenizers name, and the normal form C. All of it agrees with the reference, Hugging Face
// tokenizers 0.23.3: categories are those of Unicode 16, the normal form is that of Unicode 9.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/unicode_tables.h"

namespace strata {

struct CodePoint {
  char32_t value;      ///< a Unicode scalar value
  std::uint8_t bytes;  ///< length of its UTF-8, 1 to 4
};

/// Reads the code point at `at`. The text must be valid UTF-8, and not end at `at`.
[[nodiscard]] inline CodePoint decode_utf8(const char* at) {
  const auto byte = [at](int i) { return static_cast<unsigned char>(at[i]); };
  const auto low6 = [byte](int i) { return static_cast<char32_t>(byte(i) & 0x3f); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1fU) << 6 | low6(1), 2};
  if (lead < 0xf0) return {(lead & 0xfU) << 12 | low6(1) << 6 | low6(2), 3};
  return {(lead & 0x7U) << 18 | low6(1) << 12 | low6(2) << 6 | low6(3), 4};
}

/// Appends the UTF-8 of a scalar value.
void append_utf8(char32_t value, std::string& utf8);

/// Tells whether a code point has one of the categories of `bits`, see unicode_tables.h.
[[nodiscard]] inline bool has_category(char32_t value, std::uint8_t bits) {
  return (unicode::kCategories[value] & bits) != 0;
}

/// \p{L}, \p{N}, \p{M}, \p{P}, \p{S}, and \s, which is the property White_Space.
[[nodiscard]] inline bool is_letter(char32_t c) { return has_category(c, unicode::kLetter); }
[[nodiscard]] inline bool is_number(char32_t c) { return has_category(c, unicode::kNumber); }
[[nodiscard]] inline bool is_mark(char32_t c) { return has_category(c, unicode::kMark); }
[[nodiscard]] inline bool is_punctuation(char32_t c) {
  return has_category(c, unicode::kPunctuation);
}
[[nodiscard]] inline bool is_symbol(char32_t c) { return has_category(c, unicode::kSymbol); }
[[nodiscard]] inline bool is_space(char32_t c) { return has_category(c, unicode::kSpace); }

/// Returns the normal form C (composed) of valid UTF-8.
[[nodiscard]] std::string nfc(std::string_view utf8);

/// Tells in one pass whether valid UTF-8 is surely its own normal form C, as all ASCII is. False
/// means that nfc() has to look, and may find that nothing changes.
[[nodiscard]] bool is_nfc_quick(std::string_view utf8);

}  // namespace strata
