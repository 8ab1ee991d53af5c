// Tests Newton-Schulz steps on matrices whose singular vectors and values are known, so that the
// reference is the quintic of single numbers and no product of matrices.

#include "strata/optimizer/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "strata/op_checks/op_runner.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns element i of vector k of the cosine basis of n dimensions, which is orthonormal.
double cosine(std::int64_t n, std::int64_t k, std::int64_t i) {
  const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(k);
  const double scale = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
  return scale * std::cos(std::numbers::pi * at / static_cast<double>(n));
}

/// Returns the matrix with these singular values, whose vectors are those of cosine bases.
std::vector<double> matrix_of(const Shape& shape, const std::vector<double>& singular_values) {
  std::vector<double> matrix;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < std::ssize(singular_values); ++k) {
        sum += singular_values[static_cast<std::size_t>(k)] * cosine(shape[0], k, i) *
               cosine(shape[1], k, j);
      }
      matrix.push_back(sum);
    }
  }
  return matrix;
}

/// Returns singular values of a matrix with Frobenius norm 1, each 0.6 times the one before.
std::vector<double> falling_values(std::int64_t n) {
  std::vector<double> values;
  double squares = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    values.push_back(std::pow(0.6, static_cast<double>(k)));
    squares += values.back() * values.back();
  }
  for (double& value : values) value /= std::sqrt(squares);
  return values;
}

/// Returns what five steps of the published quintic make of a singular value.
double after_five_steps(double s) {
  for (int step = 0; step < 5; ++step) {
    s = 3.4445 * s - 4.7750 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
  }
  return s;
}

/// Returns the Frobenius norm of the error of the steps in this dtype, divided by that of what
/// they should give.
double error_of(const Shape& shape, DType dtype) {
  Backend backend = make_backend(BackendKind::kCpu, {});
  OpRunner runner(backend);
  const std::int64_t n = std::min(shape[0], shape[1]);
  std::vector<double> values = falling_values(n);
  const TensorView x = runner.output(dtype, shape);
  const TensorView exact = runner.upload(matrix_of(shape, values), DType::kF64, shape);
  const std::int64_t elements = shape.elements();
  runner.run(Cast{.x = {exact.data, exact.dtype, {elements}}, .y = {x.data, dtype, {elements}}});
  const NewtonSchulzScratch scratch{.gram = runner.output(dtype, {n, n}),
                                    .polynomial = runner.output(dtype, {n, n}),
                                    .copy = runner.output(dtype, shape)};
  submit_newton_schulz(runner.kernels(), runner.stream(), x, scratch, {});
  const std::vector<double> got = runner.download(x);
  for (double& value : values) value = after_five_steps(value);
  const std::vector<double> expected = matrix_of(shape, values);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(kNewtonSchulzGain * got[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace

TEST_CASE("Newton-Schulz steps apply the quintic to each singular value") {
  const Shape shape = GENERATE(Shape{5, 9}, Shape{9, 5}, Shape{6, 6}, Shape{1, 7}, Shape{7, 1},
                               Shape{1, 1}, Shape{12, 40});
  INFO(shape.to_string());
  CHECK(error_of(shape, DType::kF64) < 1e-9);
  CHECK(error_of(shape, DType::kF32) < 1e-4);
  CHECK(error_of(shape, DType::kBF16) < 0.1);  // PyTorch's steps in bf16 come within 0.075
}

}  // namespace strata::test
