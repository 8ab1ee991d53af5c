// Operators that pack rows into int8 with one scale each, and unpack them. The activation store
// runs them around spills to the host, which then take about half of the bytes of bf16. Letters of
// shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// Rows become int8 with one scale each: scale[n] = max over c of |x[n, c]|, rounded to f32, over
/// 127 in f32, and q = x / scale in A, rounded to the nearest integer, ties to even, and clamped to
/// [-127, 127] (only a rounding error can lie beyond). A row whose scale is 0 (zeros, or nothing
/// above 127 times half of the smallest f32) becomes zeros. A row with a NaN or an infinity, or
/// with a number beyond the largest f32, gets the scale NaN and zeros.
struct QuantizeRows {
  static constexpr std::string_view kName = "quantize_rows";
  static constexpr int kLevels = 127;
  ConstTensorView x;  ///< [N, C] X
  TensorView q;       ///< [N, C] i8
  TensorView scale;   ///< [N] f32
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// x = q * scale of its row, in A, rounded once to X. That is what QuantizeRows was given to within
/// half a scale, and NaN throughout in rows that were not finite. Codes of QuantizeFp8Rows become
/// the numbers that products of them multiply, exactly down to the smallest number of X.
struct DequantizeRows {
  static constexpr std::string_view kName = "dequantize_rows";
  ConstTensorView q;      ///< [N, C] i8 or e4m3
  ConstTensorView scale;  ///< [N] f32
  TensorView x;           ///< [N, C] X
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
