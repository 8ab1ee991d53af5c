// Writes the header of a GGUF file: magic, version, counts, keys, and the list of tensors.

#include "strata/base/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "strata/base/bytes.h"
#include "strata/base/narrow.h"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian here");

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kAlignment = 32;  ///< of tensors, where no key general.alignment says more

// The types of values, by their numbers in the file.
constexpr std::uint32_t kCount = 4;
constexpr std::uint32_t kInteger = 5;
constexpr std::uint32_t kNumber = 6;
constexpr std::uint32_t kFlag = 7;
constexpr std::uint32_t kText = 8;
constexpr std::uint32_t kList = 9;

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

}  // namespace

void GgufKeys::begin(std::string_view key, std::uint32_t type) {
  put_text(bytes_, key);
  put(bytes_, type);
  ++count_;
}

void GgufKeys::begin_list(std::string_view key, std::uint32_t type, std::size_t size) {
  begin(key, kList);
  put(bytes_, type);
  put(bytes_, static_cast<std::uint64_t>(size));
}

void GgufKeys::add_flag(std::string_view key, bool value) {
  begin(key, kFlag);
  put(bytes_, static_cast<std::uint8_t>(value ? 1 : 0));
}

void GgufKeys::add_count(std::string_view key, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
    throw std::logic_error(std::string(key) + " does not fit in 32 bits");
  }
  begin(key, kCount);
  put(bytes_, static_cast<std::uint32_t>(value));
}

void GgufKeys::add_number(std::string_view key, double value) {
  begin(key, kNumber);
  put(bytes_, static_cast<float>(value));
}

void GgufKeys::add_text(std::string_view key, std::string_view value) {
  begin(key, kText);
  put_text(bytes_, value);
}

void GgufKeys::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_list(key, kText, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

void GgufKeys::add_numbers(std::string_view key, std::span<const float> values) {
  begin_list(key, kNumber, values.size());
  for (const float value : values) put(bytes_, value);
}

void GgufKeys::add_integers(std::string_view key, std::span<const std::int32_t> values) {
  begin_list(key, kInteger, values.size());
  for (const std::int32_t value : values) put(bytes_, value);
}

void GgufKeys::append(const GgufKeys& others) {
  bytes_ += others.bytes_;
  count_ += others.count_;
}

std::uint64_t GgufTensor::bytes() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return gguf_bytes(type, elements);
}

GgufHeader gguf_header(const GgufKeys& keys, std::span<const GgufTensor> tensors) {
  GgufHeader header;
  header.bytes = kGgufMagic;
  put(header.bytes, kVersion);
  put(header.bytes, static_cast<std::uint64_t>(tensors.size()));
  put(header.bytes, keys.count());
  header.bytes += keys.bytes();
  std::uint64_t data_bytes = 0;
  for (const GgufTensor& tensor : tensors) {
    put_text(header.bytes, tensor.name);
    put(header.bytes, narrow<std::uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
      put(header.bytes, narrow<std::uint64_t>(*extent));
    }
    put(header.bytes, static_cast<std::uint32_t>(tensor.type));
    put(header.bytes, data_bytes);
    header.offsets.push_back(data_bytes);
    data_bytes = round_up(data_bytes + tensor.bytes(), kAlignment);
  }
  header.bytes.resize(round_up(header.bytes.size(), kAlignment), '\0');
  for (std::uint64_t& offset : header.offsets) offset += header.bytes.size();
  header.file_bytes = header.bytes.size() + data_bytes;
  return header;
}

}  // namespace strata
