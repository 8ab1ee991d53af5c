// What the expressions of pre-tokenizers are made of: runs of code points with some category,
// English contractions, and runs of white space. Private to splitter.cpp; inline, since a piece has
// only four or five bytes and texts are long. Positions are where code points of valid UTF-8 begin.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tokenizer/unicode.h"

namespace strata::splitting {

struct Symbol {
  const char* end;
  std::uint8_t category;  ///< bits of unicode_tables.h
};

[[nodiscard]] inline Symbol symbol_at(const char* at) {
  const auto byte = static_cast<unsigned char>(*at);
  if (byte < 0x80) return {at + 1, unicode::kCategories.of_ascii(byte)};
  const CodePoint symbol = decode_utf8(at);
  return {at + symbol.bytes, unicode::kCategories[symbol.value]};
}

/// Tells whether there is a symbol at `at` for which `is(category)` holds.
template <class Is>
[[nodiscard]] bool is_at(const char* at, const char* end, Is is) {
  return at != end && is(symbol_at(at).category);
}

/// Returns the end of the run of symbols for which `is(category)` holds; `at` if there is none.
template <class Is>
[[nodiscard]] const char* skip(const char* at, const char* end, Is is) {
  while (at != end) {
    const Symbol symbol = symbol_at(at);
    if (!is(symbol.category)) break;
    at = symbol.end;
  }
  return at;
}

enum class Case : std::uint8_t { kExact, kAny };

/// Returns the end of the run of ASCII letters a to z at `at`, or of those of any case. Looks at
/// eight bytes at once: where a word ends is what no branch predictor foresees.
template <Case letter_case>
[[nodiscard]] const char* skip_ascii_letters(const char* at, const char* end) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint64_t kEach = 0x0101010101010101, kHigh = 0x80 * kEach;
  while (end - at >= 8) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof(bytes));
    const std::uint64_t lower = letter_case == Case::kAny ? bytes | 0x20 * kEach : bytes;
    const std::uint64_t from_a = (lower | kHigh) - 'a' * kEach;         // high bits: not below a
    const std::uint64_t above_z = (lower | kHigh) - ('z' + 1) * kEach;  // high bits: above z
    const std::uint64_t others = (~from_a | above_z | bytes) & kHigh;
    if (others != 0) return at + std::countr_zero(others) / 8;
    at += 8;
  }
  return at;
}

/// Returns the end of at most `most` numbers.
[[nodiscard]] inline const char* skip_numbers(const char* at, const char* end, int most) {
  for (int i = 0; i < most && is_at(at, end, [](auto c) { return c & unicode::kNumber; }); ++i) {
    at = symbol_at(at).end;
  }
  return at;
}

[[nodiscard]] inline bool is_newline(char byte) { return byte == '\r' || byte == '\n'; }

/// Returns the end of 's, 't, 'm, 'd, 're, 've or 'll at `at`, or null if none is there. In any
/// case, the long s (U+017F) is an s.
template <Case letter_case>
[[nodiscard]] const char* skip_contraction(const char* at, const char* end) {
  const auto letter = [&](std::ptrdiff_t i) -> char {
    if (end - at <= i) return '\0';
    const bool is_upper = letter_case == Case::kAny && at[i] >= 'A' && at[i] <= 'Z';
    return is_upper ? static_cast<char>(at[i] - 'A' + 'a') : at[i];
  };
  if (letter(0) != '\'') return nullptr;
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return at + 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? at + 3 : nullptr;
    case 'l': return letter(2) == 'l' ? at + 3 : nullptr;
    case '\xc5': return letter_case == Case::kAny && letter(2) == '\xbf' ? at + 3 : nullptr;
    default: return nullptr;
  }
}

struct SpaceRun {
  const char* after_newline;  ///< after its last CR or LF; null if there is none
  const char* last;           ///< its last symbol
  const char* end;
};

/// Returns the run of white space at `begin`, which has at least one symbol.
[[nodiscard]] inline SpaceRun space_run(const char* begin, const char* end) {
  SpaceRun run{nullptr, begin, begin};
  while (run.end != end) {
    const Symbol symbol = symbol_at(run.end);
    if (!(symbol.category & unicode::kSpace)) break;
    run.last = run.end;
    run.end = symbol.end;
    if (is_newline(*run.last)) run.after_newline = run.end;
  }
  return run;
}

/// \s+(?!\S)|\s+: leaves one symbol to a word that follows, unless the run has no other.
[[nodiscard]] inline const char* before_word(const SpaceRun& run, const char* begin,
                                             const char* end) {
  return run.end == end || run.last == begin ? run.end : run.last;
}

/// \s*[\r\n]+|\s+(?!\S)|\s+
[[nodiscard]] inline const char* after_newlines_or_before_word(const char* begin, const char* end) {
  const SpaceRun run = space_run(begin, end);
  return run.after_newline != nullptr ? run.after_newline : before_word(run, begin, end);
}

}  // namespace strata::splitting
