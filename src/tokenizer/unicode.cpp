// Makes the normal form C, after section 3.11 of the Unicode Standard: a text is decomposed, its
// marks are put in canonical order, and what composes is composed. Only segments with something
// that may change are looked at: a segment begins with a starter that never composes with what is
// before it.

#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace strata {
namespace {

using unicode::Decomposition;
using unicode::kCombiningOrder;
using unicode::kCompositions;
using unicode::kDecompositions;
using unicode::kMayChange;
using unicode::kNormalization;

/// Hangul syllables are computed, section 3.12: leading consonant, vowel, perhaps trailing one.
constexpr char32_t kSyllables = 0xac00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11a7;
constexpr char32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

bool is_within(char32_t value, char32_t begin, char32_t count) {
  return value - begin < count;  // unsigned: below `begin` is far above `count`
}

unsigned order_of(char32_t value) { return kNormalization[value] & kCombiningOrder; }

void decompose_syllable(char32_t value, std::u32string& out) {
  const char32_t index = value - kSyllables;
  const char32_t trailing = index % kTrailingCount;
  out.push_back(kLeading + index / (kVowelCount * kTrailingCount));
  out.push_back(kVowels + index / kTrailingCount % kVowelCount);
  if (trailing != 0) out.push_back(kTrailing + trailing);
}

void decompose(char32_t value, std::u32string& out) {
  if (is_within(value, kSyllables, kSyllableCount)) return decompose_syllable(value, out);
  const auto at = std::lower_bound(
      kDecompositions.begin(), kDecompositions.end(), value,
      [](const Decomposition& entry, char32_t wanted) { return entry.composed < wanted; });
  if (at == kDecompositions.end() || at->composed != value) {
    out += value;
    return;
  }
  decompose(at->first, out);
  if (at->second != 0) decompose(at->second, out);
}

/// Sorts each run of marks by combining class, and leaves equal ones as they stand.
void order_marks(std::u32string& text) {
  const auto is_starter = [](char32_t value) { return order_of(value) == 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if_not(begin, text.end(), is_starter);
    const auto end = std::find_if(begin, text.end(), is_starter);
    std::stable_sort(begin, end, [](char32_t a, char32_t b) { return order_of(a) < order_of(b); });
    begin = end;
  }
}

/// Returns what two code points compose to, or 0.
char32_t composition_of(char32_t first, char32_t second) {
  if (is_within(first, kLeading, kLeadingCount) && is_within(second, kVowels, kVowelCount)) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  }
  if (is_within(first, kSyllables, kSyllableCount) && (first - kSyllables) % kTrailingCount == 0 &&
      is_within(second, kTrailing + 1, kTrailingCount - 1)) {
    return first + (second - kTrailing);
  }
  const auto is_before = [&](std::uint16_t place, char32_t) {
    const Decomposition& entry = kDecompositions[place];
    return entry.first != first ? entry.first < first : entry.second < second;
  };
  const auto at = std::lower_bound(kCompositions.begin(), kCompositions.end(), first, is_before);
  if (at == kCompositions.end()) return 0;
  const Decomposition& entry = kDecompositions[*at];
  return entry.first == first && entry.second == second ? entry.composed : 0;
}

/// Composes in place. A mark is blocked from its starter by a kept one of its class or a higher
/// one.
void compose(std::u32string& text) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone, kept = 0;
  unsigned last_order = 0;  // of what was kept after the starter; 0 if nothing was
  for (const char32_t value : text) {
    const unsigned order = order_of(value);
    const bool is_next = starter != kNone && kept == starter + 1;
    if (starter != kNone && (is_next || last_order < order)) {
      if (const char32_t composed = composition_of(text[starter], value); composed != 0) {
        text[starter] = composed;
        continue;
      }
    }
    if (order == 0) starter = kept;
    last_order = order;
    text[kept++] = value;
  }
  text.resize(kept);
}

void append_normal(std::string_view segment, std::string& out) {
  std::u32string text;
  for (const char *at = segment.data(), *const end = at + segment.size(); at != end;) {
    const CodePoint next = decode_utf8(at);
    decompose(next.value, text);
    at += next.bytes;
  }
  order_marks(text);
  compose(text);
  for (const char32_t value : text) append_utf8(value, out);
}

}  // namespace

void append_utf8(char32_t value, std::string& utf8) {
  const auto append = [&utf8](char32_t byte) { utf8 += static_cast<char>(byte); };
  const auto append_low6 = [&](int shift) { append(0x80 | (value >> shift & 0x3f)); };
  if (value < 0x80) return append(value);
  if (value < 0x800) {
    append(0xc0 | value >> 6);
  } else if (value < 0x10000) {
    append(0xe0 | value >> 12);
    append_low6(6);
  } else {
    append(0xf0 | value >> 18);
    append_low6(12);
    append_low6(6);
  }
  append_low6(0);
}

bool is_nfc_quick(std::string_view utf8) {
  unsigned last_order = 0;
  for (const char *at = utf8.data(), *const end = at + utf8.size(); at != end;) {
    const CodePoint next = decode_utf8(at);
    at += next.bytes;
    const std::uint8_t bits = next.bytes == 1 ? 0 : kNormalization[next.value];
    const unsigned order = bits & kCombiningOrder;
    if ((bits & kMayChange) != 0 || (order != 0 && order < last_order)) return false;
    last_order = order;
  }
  return true;
}

std::string nfc(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  const char* const end = utf8.data() + utf8.size();
  for (const char* at = utf8.data(); at != end;) {
    const char* const begin = at;
    bool changes = false;
    do {  // to the next segment
      const CodePoint next = decode_utf8(at);
      changes = changes || kNormalization[next.value] != 0;
      at += next.bytes;
    } while (at != end && kNormalization[decode_utf8(at).value] != 0);
    const std::string_view segment(begin, static_cast<std::size_t>(at - begin));
    if (changes) {
      append_normal(segment, out);
    } else {
      out += segment;
    }
  }
  return out;
}

}  // namespace strata
