// The element types that tensors, files and messages between ranks may have, their sizes and names,
// and the map from C++ types to them. Everything is constexpr and nothing throws; every layer above
// uses it. bfloat16 and e4m3 are types of their own here, which only store: arithmetic happens in
// f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

/// Element types of tensors, on the wire and in files.
enum class DType : std::uint8_t { kF64, kF32, kBF16, kI32, kI16, kI8, kU16, kU8, kE4M3 };

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
    case DType::kU8:
    case DType::kE4M3: return 1;
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
    case DType::kE4M3: return "e4m3";
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

/// An 8-bit number as it is stored, E4M3 of the Open Compute Project's "OCP 8-bit Floating Point
/// Specification": a sign, 4 bits of exponent and 3 of mantissa. There are no infinities; NaN is
/// 0x7f or 0xff, the largest number 448, the smallest 2^-9.
struct E4M3 {
  static constexpr float kLargest = 448;
  static constexpr std::uint8_t kNan = 0x7f;

  std::uint8_t bits{};

  E4M3() = default;
  /// Rounds to nearest, ties to even. What is beyond the largest number becomes that one; NaN
  /// becomes kNan.
  explicit constexpr E4M3(float value) {
    constexpr std::uint32_t kLargestCode = 0x7e;
    constexpr std::uint32_t kSmallestNormal = 0x3c800000;  // 2^-6
    constexpr std::uint32_t kBias = (127 - 7) << 3;  // of exponents, beside 3 bits of mantissa
    constexpr float kStep = 0x1p14f;  // sums with it are multiples of 2^-9, the smallest number
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      bits = kNan;
      return;
    }
    std::uint32_t code = 0;
    if (magnitude < kSmallestNormal) {
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kStep) -
             std::bit_cast<std::uint32_t>(kStep);
    } else {
      code = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - kBias;
      if (code > kLargestCode) code = kLargestCode;
    }
    bits = static_cast<std::uint8_t>(((u >> 24) & 0x80u) | code);
  }
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): widening is exact
    const std::uint32_t code = bits & 0x7fu;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    if (code == kNan) return std::bit_cast<float>(sign | 0x7fc00000u);
    // Read as f32, the shifted code is the number times 2^-120; f32's subnormals are among them.
    return std::bit_cast<float>(sign | (code << 20)) * 0x1p120f;
  }
};
static_assert(sizeof(E4M3) == 1);

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
struct DTypeOf<E4M3> {
  static constexpr DType value = DType::kE4M3;
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
