// Reads slices of tensors and converts them in chunks. Headers are parsed and verified in
// safetensors_header.cpp.

#include "strata/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/base/text.h"

#include "safetensors_header.h"

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // limit of the format's own implementation
constexpr std::size_t kChunkElements = 1 << 15;         // converted at a time

/// An IEEE half-precision number as it is stored.
struct F16 {
  std::uint16_t bits;
  operator float() const {  // NOLINT(google-explicit-constructor): widening is exact
    const int exponent = (bits >> 10) & 0x1f;
    const int fraction = bits & 0x3ff;
    float magnitude = 0;
    if (exponent == 0x1f) {
      magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                                : std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      magnitude = std::ldexp(static_cast<float>(fraction), -24);
    } else {
      magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

/// Calls `f` with a value of the C++ type that holds elements of `type`.
template <class F>
void with_type(StoredType type, F&& f) {
  switch (type) {
    case StoredType::kF64: return f(double{});
    case StoredType::kF32: return f(float{});
    case StoredType::kBF16: return f(Bf16{});
    case StoredType::kF16: return f(F16{});
    case StoredType::kI64: return f(std::int64_t{});
    case StoredType::kI32: return f(std::int32_t{});
    case StoredType::kI16: return f(std::int16_t{});
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_integral_v<To>) {
    return narrow<To>(value);
  } else if constexpr (std::is_same_v<To, Bf16> && std::is_same_v<From, Bf16>) {
    return value;
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return Bf16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(file, Links::kOfModel) {
  std::uint64_t header_bytes = 0;
  if (file_.bytes() < kLengthBytes) {
    throw IoError(in_file(path()) + "is too short for a safetensors header" + kDamagedFile);
  }
  file_.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_.bytes() - kLengthBytes) {
    throw IoError(in_file(path()) + "claims a header of " + std::to_string(header_bytes) +
                  " bytes in a file of " + std::to_string(file_.bytes()) + kDamagedFile);
  }
  std::string text(header_bytes, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  tensors_ = parse_safetensors_header(path(), text, kLengthBytes + header_bytes, file_.bytes());
}

std::vector<std::string> SafetensorsFile::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    names.push_back(name);
  }
  return names;
}

const StoredTensor& SafetensorsFile::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw IoError(in_file(path()) + "has no tensor '" + printable_name(shortened(name)) + "'");
  }
  return found->second;
}

const StoredTensor& SafetensorsFile::info(std::string_view name) const {
  const StoredTensor& tensor = entry(name);
  if (!tensor.unsupported.empty()) {
    throw IoError(in_tensor(path(), name) + "dtype " + tensor.unsupported +
                  " is not supported: convert the file to BF16, F16, F32 or F64 (I16, I32, I64)");
  }
  return tensor;
}

template <class From, class To>
void SafetensorsFile::read_converted(std::string_view name, std::uint64_t offset,
                                     std::span<To> out) const {
  if constexpr (std::is_same_v<From, To>) {
    file_.read(offset, std::as_writable_bytes(out));
  } else if constexpr (std::is_integral_v<From> == std::is_integral_v<To>) {
    std::vector<From> chunk(std::min(out.size(), kChunkElements));
    while (!out.empty()) {
      const auto part = std::span(chunk).first(std::min(out.size(), chunk.size()));
      file_.read(offset, std::as_writable_bytes(part));
      std::ranges::transform(part, out.begin(), [](From value) { return convert<To>(value); });
      offset += part.size_bytes();
      out = out.subspan(part.size());
    }
  } else {
    throw IoError(in_tensor(path(), name) + "holds " + std::string(name_of(info(name).dtype)) +
                  (std::is_integral_v<To> ? ", not integers" : ", not floating-point numbers"));
  }
}

template <class T>
void SafetensorsFile::read(std::string_view name, std::int64_t first_element,
                           std::span<T> out) const {
  const StoredTensor& tensor = info(name);
  require_range(path(), name, tensor.elements, first_element, out.size());
  const std::uint64_t offset =
      tensor.offset + static_cast<std::uint64_t>(first_element) * size_of(tensor.dtype);
  try {
    with_type(tensor.dtype, [&]<class From>(From) { read_converted<From>(name, offset, out); });
  } catch (const std::range_error&) {
    throw IoError(in_tensor(path(), name) + "holds integers that do not fit " +
                  std::to_string(8 * sizeof(T)) + " bits; store smaller ones");
  }
}

void SafetensorsFile::read_bytes(std::string_view name, std::int64_t begin,
                                 std::span<std::byte> out) const {
  const StoredTensor& tensor = entry(name);
  require_range(path(), name, narrow<std::int64_t>(tensor.bytes), begin, out.size());
  file_.read(tensor.offset + static_cast<std::uint64_t>(begin), out);
}

template void SafetensorsFile::read(std::string_view, std::int64_t, std::span<double>) const;
template void SafetensorsFile::read(std::string_view, std::int64_t, std::span<float>) const;
template void SafetensorsFile::read(std::string_view, std::int64_t, std::span<Bf16>) const;
template void SafetensorsFile::read(std::string_view, std::int64_t, std::span<std::int64_t>) const;
template void SafetensorsFile::read(std::string_view, std::int64_t, std::span<std::int32_t>) const;

}  // namespace strata
