// Reads field after field of a message, and refuses one that ends too early.

#include "tokenizer/protobuf_reader.h"

#include <bit>

#include "strata/base/error.h"

namespace strata {
namespace {

enum WireType : std::uint8_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

[[noreturn]] void fail() {
  throw ConfigError(
      "is damaged: a field ends behind the end of its message. Fetch the file anew, with git lfs "
      "if it lies in a git repository");
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t key = varint();
  Field field{.number = static_cast<std::uint32_t>(key >> 3)};
  switch (key & 7) {
    case kVarint: field.integer = varint(); break;
    case kEightBytes: field.integer = little_endian(take(8)); break;
    case kBytes: field.bytes = take(varint()); break;
    case kFourBytes: field.integer = little_endian(take(4)); break;
    default: throw ConfigError("is damaged: a field has a type that protocol buffers do not have");
  }
  return field;
}

std::uint64_t ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail();
}

std::string_view ProtobufReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) fail();
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(bytes));
  rest_.remove_prefix(taken.size());
  return taken;
}

float float_of(const ProtobufReader::Field& field) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(field.integer));
}

}  // namespace strata
