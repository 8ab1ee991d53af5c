// Checks of the operators on flat runs of numbers: accumulate, cast, fill and squared norms. They
// round once or add in a fixed order, so most references are exact.

#include <cmath>
#include <limits>

#include "op_checks/texts.h"
#include "strata/base/random.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

std::vector<std::int64_t> flat_sizes() { return {0, 1, 63, 4095, 4096, 4097, 100003}; }

Outputs check_accumulate(OpRunner& runner, DType dtype, std::int64_t n) {
  runner.reset(text_of(dtype, n));
  const auto x = random_values(1, n, dtype);
  const auto before = random_values(2, n, dtype);
  const TensorView sum = runner.upload(before, dtype, {n});
  runner.run(Accumulate{.x = runner.upload(x, dtype, {n}), .sum = sum});
  std::vector<double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = rounded_to(dtype, before[i] + x[i]);
  runner.require_equal("sum", sum, expected);
  return runner.outputs();
}

Outputs check_cast(OpRunner& runner, DType from, DType to, std::int64_t n) {
  runner.reset(fmt::format("{} to {}", name_of(from), text_of(to, n)));
  std::vector<double> x = random_values(1, n, from);
  // Halfway between bf16 numbers, and just off it by less than f32 can tell: must be rounded once.
  if (n > 2) {
    x[0] = rounded_to(from, 1.0 + 0x1p-8);
    x[1] = rounded_to(from, 1.0 + 0x1p-8 + 0x1p-40);
    x[2] = rounded_to(from, -1.0 - 0x3p-8 + 0x1p-40);
  }
  const TensorView y = runner.output(to, {n});
  runner.run(Cast{.x = runner.upload(x, from, {n}), .y = y});
  std::vector<double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = rounded_to(to, x[i]);
  runner.require_equal("y", y, expected);
  return runner.outputs();
}

Outputs check_copy(OpRunner& runner, std::int64_t n) {
  runner.reset(text_of(DType::kI32, n));
  std::vector<double> x;
  for (std::int64_t i = 0; i < n; ++i) {  // any bits, and those that are NaN as f32
    const std::uint64_t bits = random_bits(7, 1, static_cast<std::uint64_t>(i));
    x.push_back(static_cast<std::int32_t>(bits | (i % 3 == 0 ? 0x7f800000 : 0)));
  }
  const TensorView y = runner.output(DType::kI32, {n});
  runner.run(Cast{.x = runner.upload(x, DType::kI32, {n}), .y = y});
  runner.require_equal("y", y, x);
  return runner.outputs();
}

Outputs check_fill(OpRunner& runner, DType dtype, std::int64_t n) {
  runner.reset(text_of(dtype, n));
  // The second one is beside the middle of two bf16 numbers, by less than f32 can tell: it must be
  // rounded once.
  for (const double value : {-3.0, dtype == DType::kI32 ? 7.0 : 1.0 + 0x1p-8 + 0x1p-40}) {
    const TensorView x = runner.output(dtype, {n});
    runner.run(Fill{.x = x, .value = value});
    const double expected = dtype == DType::kI32 ? value : rounded_to(dtype, value);
    runner.require_equal("x", x, std::vector<double>(static_cast<std::size_t>(n), expected));
  }
  return runner.outputs();
}

namespace {

/// Sums of squares over blocks of 4096, in index order.
std::vector<double> block_norms(const std::vector<double>& x) {
  constexpr std::size_t kBlock = 4096;
  std::vector<double> norms((x.size() + kBlock - 1) / kBlock);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double square = x[i] * x[i];
    norms[i / kBlock] = norms[i / kBlock] + square;
  }
  return norms;
}

/// Runs of 4096 f32 or bf16 numbers: subnormal ones and zeros, some of them the largest, one
/// infinite, one NaN, and as usual.
std::vector<double> extreme_values(DType dtype) {
  constexpr std::size_t kRun = 4096;
  constexpr std::size_t kRuns = 37;  // more than a warp's
  const double smallest = dtype == DType::kBF16 ? 0x1p-133 : 0x1p-149;
  const double largest = dtype == DType::kBF16 ? 0x1.fep127 : 0x1.fffffep127;
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> x = random_values(1, kRuns * kRun, dtype);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t kind = i / kRun % 5;
    if (kind == 0) x[i] = std::trunc(x[i] * 50) * smallest;  // of either sign, down to -0
    if (kind == 1 && i % 3 == 0) x[i] = std::copysign(largest, x[i]);
    if ((kind == 2 || kind == 3) && i % kRun == 1234) x[i] = std::copysign(infinity, x[i]);
    if (kind == 3 && i % kRun == 99 + i / kRun) x[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return x;
}

}  // namespace

Outputs check_squared_norm(OpRunner& runner, DType dtype, std::int64_t n) {
  runner.reset(text_of(dtype, n));
  const auto x = random_values(1, n, dtype);
  const std::vector<double> expected = block_norms(x);
  const TensorView partial =
      runner.output(DType::kF64, {static_cast<std::int64_t>(expected.size())});
  runner.run(SquaredNorm{.x = runner.upload(x, dtype, {n}), .partial = partial});
  runner.require_equal("partial", partial, expected);  // the order is part of the contract
  return runner.outputs();
}

Outputs check_cast_squared_norm(OpRunner& runner, DType from, DType to, std::int64_t n) {
  runner.reset(fmt::format("{} to {}", name_of(from), text_of(to, n)));
  std::vector<double> x = random_values(1, n, from);
  if (n > 0) x[0] = rounded_to(from, 1.0 + 0x1p-8);  // halfway between bf16 numbers
  std::vector<double> rounded(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) rounded[i] = rounded_to(to, x[i]);
  const std::vector<double> norms = block_norms(rounded);
  const TensorView y = runner.output(to, {n});
  const TensorView partial = runner.output(DType::kF64, {static_cast<std::int64_t>(norms.size())});
  runner.run(CastSquaredNorm{.x = runner.upload(x, from, {n}), .y = y, .partial = partial});
  runner.require_equal("y", y, rounded);
  runner.require_equal("partial", partial, norms);
  return runner.outputs();
}

Outputs check_squared_norm_extremes(OpRunner& runner, DType dtype) {
  runner.reset(fmt::format("{}, extreme numbers", name_of(dtype)));
  const std::vector<double> x = extreme_values(dtype);
  const std::vector<double> norms = block_norms(x);
  const auto n = static_cast<std::int64_t>(x.size());
  const auto blocks = static_cast<std::int64_t>(norms.size());
  const TensorView partial = runner.output(DType::kF64, {blocks});
  runner.run(SquaredNorm{.x = runner.upload(x, dtype, {n}), .partial = partial});
  runner.require_equal("partial", partial, norms);
  const TensorView y = runner.output(dtype, {n});
  const TensorView cast_partial = runner.output(DType::kF64, {blocks});
  runner.run(
      CastSquaredNorm{.x = runner.upload(x, DType::kF32, {n}), .y = y, .partial = cast_partial});
  runner.require_equal("y", y, x);
  runner.require_equal("partial", cast_partial, norms);
  return runner.outputs();
}

}  // namespace strata
