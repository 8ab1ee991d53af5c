// Checks of rows and columns as e4m3, compared bit by bit with the definitions of strata/ops/fp8.h,
// and of products of them.

#include <algorithm>
#include <cmath>
#include <limits>

#include "op_checks/texts.h"
#include "strata/base/random.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/fp8_reference.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {}  // namespace

Outputs check_quantize_fp8(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const std::vector<double> rows = rows_of_all_kinds(dtype, c.tokens, c.width, true);
  const std::vector<double> columns =
      transposed(rows_of_all_kinds(dtype, c.width, c.tokens, true), c.width, c.tokens);
  const Shape shape{c.tokens, c.width};
  const QuantizeFp8Rows by_rows{.x = runner.upload(rows, dtype, shape, c.width + c.gap),
                                .q = runner.output(DType::kE4M3, shape, c.width + 2 * c.gap),
                                .scale = runner.output(DType::kF32, {c.tokens})};
  const QuantizeFp8Columns by_columns{
      .x = runner.upload(columns, dtype, shape, c.width + c.gap),
      .q = runner.output(DType::kE4M3, {c.width, c.tokens}, c.tokens + 2 * c.gap),
      .scale = runner.output(DType::kF32, {c.width})};
  runner.run(by_rows);
  runner.run(by_columns);
  const Fp8Rows of_rows = quantized(rows, c.tokens);
  const Fp8Rows of_columns = quantized(transposed(columns, c.tokens, c.width), c.width);
  runner.require_equal("q of rows", by_rows.q, of_rows.q);
  runner.require_equal("scale of rows", by_rows.scale, of_rows.scales);
  runner.require_equal("q of columns", by_columns.q, of_columns.q);
  runner.require_equal("scale of columns", by_columns.scale, of_columns.scales);
  const TensorView back = runner.output(dtype, shape, c.width + c.gap);
  runner.run(DequantizeRows{.q = by_rows.q, .scale = by_rows.scale, .x = back});
  std::vector<double> values = of_rows.values();
  for (double& value : values) value = rounded_to(dtype, value);
  runner.require_equal("x of rows", back, values);
  return runner.outputs();
}

Outputs check_transpose_fp8(OpRunner& runner, const RowsCase& c, bool with_nan) {
  const DType dtype = DType::kF32;
  runner.reset(text_of(dtype, c));
  Fp8Rows w = quantized(rows_of_all_kinds(dtype, c.tokens, c.width, false), c.tokens);
  if (with_nan && c.tokens > 0) w.scales.back() = kNan;
  const Shape shape{c.tokens, c.width};
  const TransposeFp8 op{.w = runner.upload(w.q, DType::kE4M3, shape, c.width + c.gap),
                        .scale = runner.upload(w.scales, DType::kF32, {c.tokens}),
                        .t = runner.output(DType::kE4M3, {c.width, c.tokens}, c.tokens + 2 * c.gap),
                        .t_scale = runner.output(DType::kF32, {c.width})};
  runner.run(op);
  double largest = 0x1p-126;
  for (const double scale : w.scales) {
    largest = std::isnan(scale) ? kNan : std::max(largest, scale);
  }
  std::vector<double> moved = w.values();
  for (double& value : moved) value = nearest_e4m3(value / largest);
  const std::vector<double> scales(static_cast<std::size_t>(c.width), largest);
  runner.require_equal("t", op.t, transposed(moved, c.tokens, c.width));
  runner.require_equal("t_scale", op.t_scale, scales);
  return runner.outputs();
}

Outputs check_count_fp8(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  Fp8Counts all{.largest = 0.5, .numbers = 3, .codes = 2, .subnormal = 1};
  const auto values = [&] {
    return std::vector<double>{all.largest, all.numbers, all.codes, all.subnormal};
  };
  const TensorView counts = runner.upload(values(), DType::kF64, {CountFp8::kCounts});
  const Shape shape{c.tokens, c.width};
  for (const bool wild : {false, true}) {  // and as a matrix that is transposed
    std::vector<double> x = rows_of_all_kinds(dtype, c.tokens, c.width, wild);
    for (std::size_t i = 0; i < x.size(); i += 3) {
      if (std::abs(x[i]) > 0x1p-100) x[i] *= 0x1p-16;  // which is exact
    }
    std::vector<double> q = quantized(x, c.tokens).q;
    all.add(x, q);
    if (wild) q = transposed(q, c.tokens, c.width);
    runner.run(
        CountFp8{.x = runner.upload(x, dtype, shape, c.width + c.gap),
                 .q = wild ? runner.upload(q, DType::kE4M3, {c.width, c.tokens}, c.tokens + c.gap)
                           : runner.upload(q, DType::kE4M3, shape, c.width + 2 * c.gap),
                 .counts = counts});
    runner.require_equal("counts", counts, values());
  }
  return runner.outputs();
}

std::vector<MatmulCase> fp8_matmul_cases() {
  return {{1, 16, 16},     {5, 32, 48, 16},        {33, 64, 0}, {0, 16, 32}, {130, 48, 272, 32},
          {64, 256, 1024}, {37, 96, 304, 16, -0.3}};
}

Outputs check_fp8_matmul(OpRunner& runner, DType out, MatmulUpdate update, const MatmulCase& c,
                         bool exact) {
  runner.reset(
      fmt::format("out in {}, m {}, n {}, k {}, gap {}", name_of(out), c.m, c.n, c.k, c.gap));
  const auto drawn = [&](std::uint64_t stream, std::int64_t rows) {
    std::vector<double> x = random_values(stream, rows * c.k, DType::kBF16);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] *= std::ldexp(1.0, static_cast<int>(i / static_cast<std::size_t>(c.k) * 5 % 21) - 10);
    }
    return quantized(x, rows);
  };
  const Fp8Rows a = drawn(1, c.m);
  const Fp8Rows b = drawn(2, c.n);
  const auto before = random_values(3, c.m * c.n, out);
  const bool adds = update == MatmulUpdate::kAccumulate;
  const std::int64_t stride = c.n + c.gap;
  const Shape shape{c.m, c.n};
  const Matmul op{
      .a = runner.upload(a.q, DType::kE4M3, {c.m, c.k}, c.k + c.gap),
      .b = runner.upload(b.q, DType::kE4M3, {c.n, c.k}, c.k + 2 * c.gap),
      .out = adds ? runner.upload(before, out, shape, stride) : runner.output(out, shape, stride),
      .layout = MatmulLayout::kNT,
      .update = update,
      .alpha = c.alpha,
      .a_scale = runner.upload(a.scales, DType::kF32, {c.m}),
      .b_scale = runner.upload(b.scales, DType::kF32, {c.n})};
  runner.run(op);
  const std::vector<double> got = runner.download(op.out);

  const std::vector<double> rounded_a = a.values();
  const std::vector<double> rounded_b = b.values();
  Expected expected(c.m * c.n);
  double errors = 0;  // of outputs, over the RMS of what they are sums of; squared
  double sums = 0;    // likewise the outputs
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t n = 0; n < c.n; ++n) {
      const auto i = static_cast<std::size_t>(m * c.n + n);
      double sum = adds ? before[i] : 0;
      double squares = sum * sum;
      double magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double product = c.alpha * rounded_a[static_cast<std::size_t>(m * c.k + k)] *
                               rounded_b[static_cast<std::size_t>(n * c.k + k)];
        sum += product;
        squares += product * product;
        magnitude += std::abs(product);
      }
      expected.values[i] = sum;
      expected.error[i] = static_cast<double>(c.k + (c.alpha == 1 ? 1 : 3)) * magnitude;
      if (squares == 0) continue;
      errors += (got[i] - sum) * (got[i] - sum) / squares;
      sums += sum * sum / squares;
    }
  }
  const DType accumulator = out == DType::kF64 ? DType::kF64 : DType::kF32;
  if (exact) {
    runner.require_close("out", op.out, expected, accumulator);
    return runner.outputs();
  }
  // Tensor cores add up in fewer bits than f32.
  constexpr double kMost = 2e-3;
  const double outputs = std::max(sums, static_cast<double>(c.m * c.n));
  if (!(errors <= kMost * kMost * outputs)) {
    runner.fail(fmt::format("is off by {:.2g} of its RMS", std::sqrt(errors / outputs)));
  }
  return {got};
}

void check_fp8_product_error(OpRunner& runner, bool decades) {
  constexpr std::int64_t kM = 48;
  constexpr std::int64_t kN = 160;
  constexpr std::int64_t kK = 4096;
  constexpr double kMostError = 0.045;  // of the norm of a row; e4m3 rounds to 2.6 % on average
  runner.reset(decades ? "numbers of six decades" : "normal numbers");
  const auto drawn = [&](std::uint64_t stream, std::int64_t count) {
    std::vector<double> x = random_values(stream, count, DType::kBF16);
    for (std::size_t i = 0; decades && i < x.size(); ++i) {
      x[i] *= std::pow(10.0, 6 * random_uniform(3, stream, i) - 3);
      x[i] = rounded_to(DType::kBF16, x[i]);
    }
    return x;
  };
  const std::vector<double> a = drawn(5, kM * kK);
  const std::vector<double> b = drawn(6, kN * kK);
  const auto quantize = [&](const std::vector<double>& x, std::int64_t rows) {
    const QuantizeFp8Rows op{.x = runner.upload(x, DType::kBF16, {rows, kK}),
                             .q = runner.output(DType::kE4M3, {rows, kK}),
                             .scale = runner.output(DType::kF32, {rows})};
    runner.run(op);
    return op;
  };
  const QuantizeFp8Rows of_a = quantize(a, kM);
  const QuantizeFp8Rows of_b = quantize(b, kN);
  const TensorView out = runner.output(DType::kBF16, {kM, kN});
  runner.run(
      Matmul{.a = of_a.q, .b = of_b.q, .out = out, .a_scale = of_a.scale, .b_scale = of_b.scale});
  const std::vector<double> got = runner.download(out);
  for (std::int64_t m = 0; m < kM; ++m) {
    double error = 0;
    double norm = 0;
    for (std::int64_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < kK; ++k) {
        sum += a[static_cast<std::size_t>(m * kK + k)] * b[static_cast<std::size_t>(n * kK + k)];
      }
      const double off = got[static_cast<std::size_t>(m * kN + n)] - sum;
      error += off * off;
      norm += sum * sum;
    }
    if (!(error <= kMostError * kMostError * norm)) {
      runner.fail(fmt::format("made row {} off by {:.2g} of its norm", m, std::sqrt(error / norm)));
    }
  }
}

}  // namespace strata
