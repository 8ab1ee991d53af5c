// Rows as e4m3 by the definitions of strata/ops/fp8.h. Nothing is shared with the code under
// test.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/base/dtype.h"

namespace strata {

/// Returns the nearest e4m3, of two the one with the even code, and 448 beyond that; NaN for NaN.
[[nodiscard]] double nearest_e4m3(double x);

/// A matrix of codes, as values, and the scales of its rows.
struct Fp8Rows {
  std::vector<double> q;
  std::vector<double> scales;

  /// Returns codes times scales.
  [[nodiscard]] std::vector<double> values() const;
};

/// What CountFp8 counts.
struct Fp8Counts {
  double largest = 0;
  double numbers = 0;
  double codes = 0;
  double subnormal = 0;

  /// Counts numbers, and the values of codes.
  void add(const std::vector<double>& x, const std::vector<double>& q);
};

/// Returns `rows` rows as QuantizeFp8Rows makes them.
[[nodiscard]] Fp8Rows quantized(const std::vector<double>& x, std::int64_t rows);

/// Returns a matrix [rows, columns] as [columns, rows].
[[nodiscard]] std::vector<double> transposed(const std::vector<double>& x, std::int64_t rows,
                                             std::int64_t columns);

/// Normal numbers, of which each row has another size, and from the second row on: zeros, subnormal
/// numbers, a number far above the others, the largest number by which the scale stays, the next
/// one, and every tie and code. With `wild` then come a NaN, an infinity, and in f64 a number
/// beyond f32.
[[nodiscard]] std::vector<double> rows_of_all_kinds(DType dtype, std::int64_t rows,
                                                    std::int64_t width, bool wild);

}  // namespace strata
