// What the checks of operators share: numbers that a dtype holds exactly, what an output should be,
// and how large an error may be. Bounds follow from the arithmetic of an operator and are no tuned
// tolerances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/base/dtype.h"

namespace strata {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What a check found wrong with an operator.
class CheckFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Largest relative error of one rounding to nearest: 2^-53, 2^-24, 2^-8.
[[nodiscard]] double unit_roundoff(DType dtype);
/// `value` rounded to nearest, ties to even, by scaling and std::nearbyint (normal numbers only).
[[nodiscard]] double rounded_to(DType dtype, double value);
/// Returns the index of element [row, column] in rows without gaps.
[[nodiscard]] inline std::size_t index_of(std::int64_t row, std::int64_t column,
                                          std::int64_t width) {
  return static_cast<std::size_t>(row * width + column);
}
/// Standard normal numbers, rounded to `dtype`.
[[nodiscard]] std::vector<double> random_values(std::uint64_t stream, std::int64_t count,
                                                DType dtype);
/// Uniform integers in [0, limit).
[[nodiscard]] std::vector<double> random_integers(std::uint64_t stream, std::int64_t count,
                                                  std::int64_t limit);

/// An output as it should be, with the size of the errors its arithmetic may make.
struct Expected {
  std::vector<double> values;
  /// Per element, in units of the accumulator's roundoff: a first-order bound on the error of the
  /// computation in A, that is the sum over roundings of the size of what they reach the result as.
  std::vector<double> error;
  /// Per element, in units of the roundoff of an intermediate that the backend may round; or empty.
  std::vector<double> intermediate_error;

  explicit Expected(std::int64_t count)
      : values(static_cast<std::size_t>(count)), error(values.size()) {}
};

/// What an output and its intermediate results are rounded to.
struct Roundings {
  DType out, accumulator;
  DType intermediate = DType::kF64;
};

/// Requires |got - expected| <= u(out) |expected| + 2 (u(A) error + u(intermediate)
/// intermediate_error) for every element. The factor covers second-order terms and, in f64, the
/// rounding of the reference itself. Returns the largest error as a share of its bound. Throws
/// CheckFailure that names the output, the element, both values and the bound.
double require_close(const std::string& name, const std::vector<double>& got,
                     const Expected& expected, const Roundings& roundings);
/// Requires equal values, zeros of equal sign; NaN equals NaN whatever its payload. Throws as
/// require_close does.
void require_equal(const std::string& name, const std::vector<double>& got,
                   const std::vector<double>& expected);

}  // namespace strata
