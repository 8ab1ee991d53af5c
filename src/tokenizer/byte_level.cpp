// Writes bytes as code points and back, by GPT-2's table: printable bytes of Latin-1 are
// themselves, the others, in their order, are the code points from U+0100 on.

#include "tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode.h"

namespace strata {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::size_t kCodePoints = 0x144;
constexpr std::array<std::int16_t, kCodePoints> kBytes = [] {
  std::array<std::int16_t, kCodePoints> bytes{};
  bytes.fill(-1);
  std::size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[is_printable(byte) ? static_cast<std::size_t>(byte) : next++] =
        static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

constexpr std::array<char32_t, 256> kWritten = [] {
  std::array<char32_t, 256> written{};
  for (std::size_t point = 0; point < kCodePoints; ++point) {
    if (kBytes[point] >= 0) {
      written[static_cast<std::size_t>(kBytes[point])] = static_cast<char32_t>(point);
    }
  }
  return written;
}();

}  // namespace

std::optional<std::string> bytes_of_byte_level(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = decode_utf8(token.data() + at);
    if (point.value >= kCodePoints || kBytes[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[point.value]);
    at += point.bytes;
  }
  return bytes;
}

std::string byte_level_of(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(kWritten[static_cast<unsigned char>(byte)], token);
  return token;
}

}  // namespace strata
