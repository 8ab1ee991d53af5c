// One element of a tensor of any dtype, from f64 and to it. Whoever lays tensors out byte by byte
// uses it, where speed does not count; strata/base/convert.h has whole tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "strata/base/dtype.h"

namespace strata {

/// Writes a value as `dtype`, rounded to nearest even (bf16 and e4m3 by way of f32), to memory that
/// needs no alignment. Integers take whole values that they can hold.
inline void store_element(std::byte* to, DType dtype, double value) {
  const auto put = [to](auto x) { std::memcpy(to, &x, sizeof x); };
  switch (dtype) {
    case DType::kF64: return put(value);
    case DType::kF32: return put(static_cast<float>(value));
    case DType::kBF16: return put(Bf16(static_cast<float>(value)));
    case DType::kI32: return put(static_cast<std::int32_t>(value));
    case DType::kI16: return put(static_cast<std::int16_t>(value));
    case DType::kI8: return put(static_cast<std::int8_t>(value));
    case DType::kU16: return put(static_cast<std::uint16_t>(value));
    case DType::kU8: return put(static_cast<std::uint8_t>(value));
    case DType::kE4M3: return put(E4M3(static_cast<float>(value)));
  }
}

/// Returns the value of an element of `dtype`, from memory that needs no alignment.
[[nodiscard]] inline double load_element(const std::byte* from, DType dtype) {
  const auto get = [from](auto x) {
    std::memcpy(&x, from, sizeof x);
    return static_cast<double>(x);
  };
  switch (dtype) {
    case DType::kF64: return get(double{});
    case DType::kF32: return get(float{});
    case DType::kBF16: return get(Bf16{});
    case DType::kI32: return get(std::int32_t{});
    case DType::kI16: return get(std::int16_t{});
    case DType::kI8: return get(std::int8_t{});
    case DType::kU16: return get(std::uint16_t{});
    case DType::kU8: return get(std::uint8_t{});
    case DType::kE4M3: return get(E4M3{});
  }
  return 0;
}

}  // namespace strata
