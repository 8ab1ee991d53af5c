// Operators that round rows and columns to e4m3 with one scale each, for products in 8 bits
// (strata/ops/matmul.h). Scales are powers of two, so a code and its scale are a number that bf16
// and f32 hold exactly, unless it is below their range: a product in e4m3 is the product of rounded
// numbers. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include <bit>
#include <cstdint>

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// Returns the scale of numbers from the bits of their largest magnitude, as f32: the smallest
/// power of two by which that becomes at most 448, the largest e4m3, and at least 2^-126. It is NaN
/// for an infinity or a NaN. Bits of magnitudes are in the order of the numbers, with infinity and
/// then NaNs above them.
[[nodiscard]] constexpr float fp8_scale(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr std::uint32_t kQuietNan = 0x7fc00000u;
  constexpr std::uint32_t kAboveMantissa = 0x1fffffu;  // carries for mantissas above that of 448
  constexpr std::uint32_t kExponent = 8;               // of 448 = 1.75 * 2^8
  if (largest >= kInfinity) return std::bit_cast<float>(kQuietNan);
  const std::uint32_t exponent = (largest + kAboveMantissa) >> 23;
  return std::bit_cast<float>((exponent > kExponent ? exponent - kExponent : 1u) << 23);
}

/// scale[n] is fp8_scale of the largest |x[n, c]| over c, rounded to f32, and q = x / scale,
/// rounded to e4m3 once. A row with a NaN or an infinity, or with a number beyond the largest f32,
/// gets the scale NaN and NaN throughout. A row of zeros has the smallest scale, 2^-126.
struct QuantizeFp8Rows {
  static constexpr std::string_view kName = "quantize_fp8_rows";
  ConstTensorView x;  ///< [N, C] X
  TensorView q;       ///< [N, C] e4m3
  TensorView scale;   ///< [N] f32
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// Does the same with the columns of x: scale[c] is that of x[n, c] over n, and q is transposed. So
/// rows of q are operands of products that sum over n, as gradients of weights do.
struct QuantizeFp8Columns {
  static constexpr std::string_view kName = "quantize_fp8_columns";
  ConstTensorView x;  ///< [N, C] X
  TensorView q;       ///< [C, N] e4m3
  TensorView scale;   ///< [C] f32
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// Transposes what QuantizeFp8Rows made, for products that sum over its rows: t[c, r] = w[r, c] *
/// scale[r] / t_scale, rounded to e4m3, where t_scale is the largest scale, for all rows of t
/// alike. Numbers of rows with smaller scales may become subnormal, or zero. If one scale is NaN,
/// t_scale is, and t is NaN throughout.
struct TransposeFp8 {
  static constexpr std::string_view kName = "transpose_fp8";
  ConstTensorView w;      ///< [R, C] e4m3
  ConstTensorView scale;  ///< [R] f32, powers of two or NaN
  TensorView t;           ///< [C, R] e4m3
  TensorView t_scale;     ///< [C] f32
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// Adds up what rounding x to the codes q has lost. Numbers of each are counted, and none is
/// compared with its own code, so q may be what any operator above made of x. A number that was
/// flushed to zero is one of kNumbers and none of kCodes. Counts are whole numbers below 2^53.
struct CountFp8 {
  static constexpr std::string_view kName = "count_fp8";
  /// The places of `counts`.
  enum Count : std::uint8_t {
    kLargest,    ///< the largest |x| so far, as f32; NaN if an x was
    kNumbers,    ///< of x that are not 0
    kCodes,      ///< of q that are not 0
    kSubnormal,  ///< of these, the codes below 2^-6, which have fewer significant bits than others
    kCounts
  };
  ConstTensorView x;  ///< [N, C] X
  ConstTensorView q;  ///< [N, C] or [C, N] e4m3
  TensorView counts;  ///< [kCounts] f64, added to
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
