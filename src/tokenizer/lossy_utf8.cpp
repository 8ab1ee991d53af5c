// Replaces what is not UTF-8 in the bytes of tokens, and reads tokens that stand for one byte.

#include "tokenizer/lossy_utf8.h"

namespace strata {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

Utf8Sequence utf8_sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  if (at + 1 >= text.size()) return {1, false};
  const unsigned lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return {1, false};
  for (std::size_t i = 2; i < length; ++i) {
    if (at + i >= text.size() || !is_continuation(text[at + i])) return {i, false};
  }
  return {length, true};
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Sequence sequence = utf8_sequence_at(bytes, at);
    text += sequence.valid ? bytes.substr(at, sequence.bytes) : kReplacementCharacter;
    at += sequence.bytes;
  }
  return text;
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto digit = [&](char c) {
    return kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
  };
  const std::size_t high = digit(token[3]);
  const std::size_t low = digit(token[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

}  // namespace strata
