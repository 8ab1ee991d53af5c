// Rounds rows to e4m3 for checks: scales are searched, and codes are looked up in a
// table that is made from the definition of the format, all in f64.

#include "strata/op_checks/fp8_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "strata/op_checks/reference.h"

namespace strata {

namespace {

constexpr double kLargest = 448;
constexpr int kCodes = 0x7f;  // numbers that are not negative

/// Returns all e4m3 that are not negative, in order; the index is the code.
std::array<double, kCodes> all_codes() {
  std::array<double, kCodes> values{};
  for (int code = 0; code < kCodes; ++code) {
    const int exponent = code / 8;
    const int steps = exponent == 0 ? code : 8 + code % 8;
    values[static_cast<std::size_t>(code)] = std::ldexp(steps, std::max(exponent, 1) - 10);
  }
  return values;
}

double scale_of(const double* row, std::int64_t width) {
  double largest = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    const auto magnitude = static_cast<double>(static_cast<float>(std::abs(row[c])));
    if (!std::isfinite(magnitude)) return kNan;
    largest = std::max(largest, magnitude);
  }
  double scale = 0x1p-126;
  while (largest > kLargest * scale) scale *= 2;
  return scale;
}

}  // namespace

double nearest_e4m3(double x) {
  static const std::array<double, kCodes> codes = all_codes();
  if (std::isnan(x)) return kNan;
  const double magnitude = std::abs(x);
  const auto above = std::lower_bound(codes.begin(), codes.end(), magnitude);
  if (above == codes.end()) return std::copysign(kLargest, x);
  if (above == codes.begin()) return std::copysign(0.0, x);
  const double to_above = *above - magnitude;
  const double to_below = magnitude - *(above - 1);
  const bool even = (above - codes.begin()) % 2 == 0;
  const bool up = to_above < to_below || (to_above == to_below && even);
  return std::copysign(up ? *above : *(above - 1), x);
}

std::vector<double> Fp8Rows::values() const {
  std::vector<double> all = q;
  const std::size_t width = q.size() / std::max<std::size_t>(scales.size(), 1);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] *= scales[i / width];
  return all;
}

void Fp8Counts::add(const std::vector<double>& x, const std::vector<double>& q) {
  constexpr double kSmallestNormal = 0x1p-6;
  for (const double value : x) {
    const auto magnitude = static_cast<double>(static_cast<float>(std::abs(value)));
    if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
    if (value != 0) ++numbers;
  }
  for (const double value : q) {
    if (value != 0) ++codes;
    if (value != 0 && std::abs(value) < kSmallestNormal) ++subnormal;
  }
}

Fp8Rows quantized(const std::vector<double>& x, std::int64_t rows) {
  Fp8Rows result{.q = x, .scales = {}};
  const std::int64_t width = rows == 0 ? 0 : static_cast<std::int64_t>(x.size()) / rows;
  for (std::int64_t n = 0; n < rows; ++n) {
    double* const row = result.q.data() + n * width;
    const double scale = scale_of(row, width);
    result.scales.push_back(scale);
    for (std::int64_t c = 0; c < width; ++c) row[c] = nearest_e4m3(row[c] / scale);
  }
  return result;
}

std::vector<double> transposed(const std::vector<double>& x, std::int64_t rows,
                               std::int64_t columns) {
  std::vector<double> to(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      to[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return to;
}

std::vector<double> rows_of_all_kinds(DType dtype, std::int64_t rows, std::int64_t width,
                                      bool wild) {
  std::vector<double> x = random_values(1, rows * width, dtype);
  const auto row = [&](std::int64_t n) { return x.begin() + n * width; };
  for (std::int64_t n = 0; n < rows; ++n) {
    const double size = std::ldexp(1.0, static_cast<int>(n * 7 % 23) - 11);
    std::transform(row(n), row(n + 1), row(n), [=](double v) { return v * size; });
  }
  if (rows < 11) return x;
  const double smallest = dtype == DType::kBF16 ? 0x1p-133 : 0x1p-149;
  std::fill(row(1), row(2), 0.0);
  *row(1) = -0.0;
  std::transform(row(2), row(3), row(2), [&](double v) { return std::trunc(8 * v) * smallest; });
  *(row(3) + width / 3) = -0x1.8p30;
  *(row(4) + width / 2) = 0x1.cp5;
  *(row(5) + width / 2) = dtype == DType::kBF16 ? 0x1.c2p5 : 0x1.c00002p5;
  for (std::int64_t c = 0; c < width; ++c) {  // codes by halves of steps, for the scale 1
    const auto code = static_cast<int>(c % (2 * kCodes - 1));
    const int steps = code / 16 == 0 ? code : 16 + code % 16;
    *(row(6) + c) = std::ldexp(c % 3 == 0 ? -steps : steps, std::max(code / 16, 1) - 11);
  }
  *row(6) = kLargest;
  if (!wild) return x;
  *(row(7) + width / 2) = kNan;
  *(row(8) + width - 1) = -std::numeric_limits<double>::infinity();
  if (dtype == DType::kF64) *row(9) = 0x1p130;
  return x;
}

}  // namespace strata
