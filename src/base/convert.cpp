// Converts whole tensors to and from f64, one element at a time. Elements are stored by memcpy, so
// the output buffer of store_as needs no alignment.

#include "strata/base/convert.h"

#include <bit>
#include <cstring>
#include <string>

namespace strata {

namespace {

template <class T>
void store_values(std::span<const double> values, std::byte* out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    if constexpr (std::is_same_v<T, Bf16>) {
      value = Bf16(static_cast<float>(values[i]));
    } else {
      value = static_cast<T>(values[i]);
    }
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
std::vector<double> load_values(const ConstTensorView& tensor) {
  const T* data = tensor.as<T>();
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(data[i]);
  return values;
}

}  // namespace

void store_as(std::span<const double> values, DType dtype, std::span<std::byte> out) {
  if (out.size() < values.size() * size_of(dtype)) {
    throw ShapeError("store_as: " + std::to_string(values.size()) + " values of " +
                     std::string(name_of(dtype)) + " do not fit " + std::to_string(out.size()) +
                     " bytes");
  }
  switch (dtype) {
    case DType::kF64: return store_values<double>(values, out.data());
    case DType::kF32: return store_values<float>(values, out.data());
    case DType::kBF16: return store_values<Bf16>(values, out.data());
    default: throw ShapeError("store_as: not a floating-point dtype");
  }
}

std::vector<double> load_as_double(const ConstTensorView& tensor) {
  if (!tensor.contiguous()) throw ShapeError("load_as_double: the tensor must be contiguous");
  switch (tensor.dtype) {
    case DType::kF64: return load_values<double>(tensor);
    case DType::kF32: return load_values<float>(tensor);
    case DType::kBF16: return load_values<Bf16>(tensor);
    default: throw ShapeError("load_as_double: not a floating-point dtype");
  }
}

float join_f32(SplitF32 parts) {
  const auto low = static_cast<std::uint32_t>(static_cast<std::int32_t>(parts.low));
  return std::bit_cast<float>((static_cast<std::uint32_t>(parts.high) << 16) + low);
}

}  // namespace strata
