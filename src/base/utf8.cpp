// Checks and mends UTF-8. Runs of ASCII are checked eight bytes at a time, because most text is
// little else.

#include "strata/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace strata {

namespace {

/// What may follow a lead byte: how many bytes, and the range of the first of them. The others are
/// 0x80..0xBF.
struct Sequence {
  std::size_t length = 0;  ///< bytes after the lead; 0 if it is not a lead byte
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Sequence sequence_of(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {.length = 1};
  if (lead == 0xE0) return {.length = 2, .low = 0xA0};
  if (lead == 0xED) return {.length = 2, .high = 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {.length = 2};
  if (lead == 0xF0) return {.length = 3, .low = 0x90};
  if (lead == 0xF4) return {.length = 3, .high = 0x8F};
  if (lead >= 0xF1 && lead <= 0xF3) return {.length = 3};
  return {};
}

/// Returns how many bytes of `text`, which begins with no valid character, are the beginning of
/// one; at least 1.
std::size_t maximal_subpart(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Sequence s = sequence_of(byte_at(0));
  const std::size_t end = std::min(s.length + 1, text.size());
  std::size_t bytes = 1;
  while (bytes < end) {
    const unsigned char low = bytes == 1 ? s.low : 0x80;
    const unsigned char high = bytes == 1 ? s.high : 0xBF;
    if (byte_at(bytes) < low || byte_at(bytes) > high) break;
    ++bytes;
  }
  return bytes;
}

}  // namespace

std::size_t valid_utf8_bytes(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ull;
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    if (i + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & kHighBits) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    if (byte_at(i) < 0x80) {
      ++i;
      continue;
    }
    const Sequence s = sequence_of(byte_at(i));
    if (s.length == 0 || i + s.length >= text.size()) return i;
    if (byte_at(i + 1) < s.low || byte_at(i + 1) > s.high) return i;
    for (std::size_t j = 2; j <= s.length; ++j) {
      if ((byte_at(i + j) & 0xC0) != 0x80) return i;
    }
    i += s.length + 1;
  }
  return i;
}

std::string with_valid_utf8(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  std::string mended;
  while (true) {
    const std::size_t valid = valid_utf8_bytes(text);
    mended += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return mended;
    mended += kReplacement;
    text.remove_prefix(maximal_subpart(text));
  }
}

}  // namespace strata
