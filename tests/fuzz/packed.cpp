// RFC 1952 and 1951 (gzip, stored blocks) and RFC 8878 (zstd, raw and RLE blocks).

#include "fuzz/packed.h"

#include <cstdint>

namespace strata::fuzz {
namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

void append(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace

std::string pack_gzip(std::string_view bytes) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11);  // and the header of the last block
  const auto size = static_cast<std::uint32_t>(bytes.size());
  append(out, size, 2);
  append(out, ~size, 2);
  out += bytes;
  append(out, crc32(bytes), 4);
  append(out, size, 4);
  return out;
}

std::string pack_zstd(std::string_view bytes, std::size_t repeated) {
  constexpr std::uint32_t kBlock = 1u << 17;
  constexpr std::uint32_t kRepeat = 1u << 1;
  std::string out("\x28\xb5\x2f\xfd\0\x38", 6);  // a window of 128 KiB
  for (std::size_t i = 0; i < repeated; ++i) {
    append(out, kBlock << 3 | kRepeat, 3);
    out += 'x';
  }
  append(out, static_cast<std::uint32_t>(bytes.size()) << 3 | 1, 3);  // the last block
  out += bytes;
  return out;
}

}  // namespace strata::fuzz
