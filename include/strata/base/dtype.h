// The element types that tensors, files and messages between ranks may have, their sizes and names,
// and the map from C++ types to them. Everything is constexpr and nothing throws; every layer above
// uses it. bfloat16 is a type of its own here, which only stores: arithmetic happens in f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

/// Element types of tensors, on the wire and in files.
enum class DType : std::uint8_t { kF64, kF32, kBF16, kI32, kI16, kI8, kU16, kU8 };

/// Returns the bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::kF64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16: return 2;
    case DType::kI8:
    case DType::kU8: return 1;
  }
  return 0;
}

/// Returns the short name that messages and files use, such as "bf16".
[[nodiscard]] constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::kF64: return "f64";
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kI32: return "i32";
    case DType::kI16: return "i16";
    case DType::kI8: return "i8";
    case DType::kU16: return "u16";
    case DType::kU8: return "u8";
  }
  return "?";
}

/// A bfloat16 number as it is stored. Arithmetic happens in f32: convert, compute, round once.
struct Bf16 {
  std::uint16_t bits{};

  Bf16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN (quiet).
  explicit constexpr Bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): widening is exact
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(Bf16) == 2);

/// Maps a C++ element type to its DType; kDTypeOf<T> is the short form.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

/// Returns the type in which operators of a compute dtype accumulate and in which their gradients
/// are kept: f64 for f64, else f32.
[[nodiscard]] constexpr DType accumulator_of(DType compute) {
  return compute == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace strata
