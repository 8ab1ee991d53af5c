// Checks of the operators that work row by row, compared with their formulas in f64: residual add,
// biases, SwiGLU and RMSNorm.

#include <algorithm>
#include <array>
#include <cmath>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

double sum_in(DType accumulator, DType out, double a, double b) {
  return rounded_to(out, rounded_to(accumulator, a + b));
}

}  // namespace

std::vector<RowsCase> rows_cases() {
  return {{1, 1},
          {0, 5},
          {3, 7},
          {5, 64, 3},
          {17, 33, 0, true},
          {2, 129, 9, true},
          {64, 256},
          {33, 1000, 24},
          {300, 70, 0, true}};
}

Outputs check_residual_add(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const Shape shape{c.tokens, c.width};
  const auto a = random_values(1, shape.elements(), dtype);
  const auto b = random_values(2, shape.elements(), dtype);
  const TensorView da = runner.upload(a, dtype, shape, c.width + c.gap);
  const TensorView db = runner.upload(b, dtype, shape, c.width + 2 * c.gap);
  const TensorView y = c.in_place ? da : runner.output(dtype, shape, c.width + c.gap);
  runner.run(ResidualAdd{.a = da, .b = db, .y = y});
  std::vector<double> expected(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected[i] = sum_in(accumulator_of(dtype), dtype, a[i], b[i]);
  }
  runner.require_equal("y", y, expected);
  return runner.outputs();
}

Outputs check_bias(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const auto x = random_values(1, shape.elements(), dtype);
  const auto bias = random_values(2, c.width, dtype);
  const auto before = random_values(3, c.width, accumulator);
  std::vector<double> sum(x.size());
  Expected d_bias(c.width);
  for (std::int64_t i = 0; i < c.width; ++i) {
    const auto column = static_cast<std::size_t>(i);
    d_bias.values[column] = before[column];
    d_bias.error[column] = std::abs(before[column]);
    for (std::int64_t n = 0; n < c.tokens; ++n) {
      const std::size_t k = index_of(n, i, c.width);
      sum[k] = sum_in(accumulator, dtype, x[k], bias[column]);
      d_bias.values[column] += x[k];
      d_bias.error[column] += static_cast<double>(c.tokens + 1) * std::abs(x[k]);
    }
  }
  const TensorView d_x = runner.upload(x, dtype, shape, c.width + c.gap);
  const TensorView gradient = runner.upload(before, accumulator, {c.width});
  runner.run(BiasBackward{
      .dy = d_x,
      .d_bias = gradient,
      .workspace = runner.output(accumulator, {BiasBackward::kWorkspaceRows, c.width})});
  runner.require_close("d_bias", gradient, d_bias, accumulator);
  const TensorView y = c.in_place ? d_x : runner.output(dtype, shape, c.width + 2 * c.gap);
  runner.run(BiasAdd{.x = d_x, .bias = runner.upload(bias, dtype, {c.width}), .y = y});
  runner.require_equal("y", y, sum);
  return runner.outputs();
}

Outputs check_soft_cap(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const double cap = 1.5;
  auto x = random_values(1, shape.elements(), dtype);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 8 : 1;  // exact
  const auto dy = random_values(2, shape.elements(), dtype);
  Expected y(shape.elements());
  Expected dx(shape.elements());
  std::vector<double> given_y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    // x / cap is rounded, then the tanh, of a few ulp, and the product.
    y.values[i] = cap * std::tanh(x[i] / cap);
    y.error[i] = 6 * std::abs(y.values[i]);
    given_y[i] = rounded_to(dtype, y.values[i]);
    const double square = given_y[i] / cap * (given_y[i] / cap);
    dx.values[i] = dy[i] * (1 - square);
    dx.error[i] = 4 * std::abs(dy[i]) * (square + std::abs(1 - square));
  }
  const TensorView d_x = runner.upload(x, dtype, shape, c.width + c.gap);
  const TensorView d_dy = runner.upload(dy, dtype, shape, c.width + 2 * c.gap);
  const SoftCapForward forward{
      .x = d_x,
      .y = c.in_place ? d_x : runner.output(dtype, shape, c.width + 2 * c.gap),
      .cap = cap};
  const SoftCapBackward backward{
      .dy = d_dy,
      .y = runner.upload(given_y, dtype, shape, c.width + c.gap),
      .dx = c.in_place ? d_dy : runner.output(dtype, shape, c.width + c.gap),
      .cap = cap};
  runner.run(forward);
  runner.require_close("y", forward.y, y, accumulator);
  runner.run(backward);
  runner.require_close("dx", backward.dx, dx, accumulator);
  return runner.outputs();
}

namespace {

/// What a gate opens to: x * s, and the slope of that.
struct Opened {
  double s, slope;
  double roundings;  ///< relative error of s, and of the slope relative to slope_size
  double slope_size;
};
Opened opened(Activation activation, double x) {
  if (activation == Activation::kGelu) {
    const double s = std::erfc(-x / std::sqrt(2.0)) / 2;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    // erfc() turns a rounding of its argument, far down its tail, into x^2 of them.
    return {s, s + x * density, 16 + 2 * x * x, s + std::abs(x) * density};
  }
  const bool silu = activation == Activation::kSilu;
  const double k = 2 * std::sqrt(2 / std::acos(-1.0));
  const double u = silu ? x : k * (x + 0.044715 * x * x * x);
  const double du = silu ? 1 : k * (1 + 3 * 0.044715 * x * x);
  const double s = 1 / (1 + std::exp(-u));
  // exp(-u) turns |u|, with the roundings of u, into a relative error; 1 - s has an absolute error
  // of a rounding of 1, whatever its own size.
  return {s, s * (1 + x * (1 - s) * du), 8 + (silu ? 1 : 6) * std::abs(u),
          s * (1 + std::abs(x) * (2 - s) * du)};
}

}  // namespace

Outputs check_swiglu(OpRunner& runner, DType dtype, const RowsCase& c, Activation activation) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape narrow_shape{c.tokens, c.width};
  const Shape wide_shape{c.tokens, 2 * c.width};
  const auto gate_up = random_values(1, wide_shape.elements(), dtype);
  const auto d_y = random_values(2, narrow_shape.elements(), dtype);
  Expected y(narrow_shape.elements());
  Expected d_gate_up(wide_shape.elements());
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    for (std::int64_t f = 0; f < c.width; ++f) {
      const std::size_t i = index_of(n, f, c.width);
      const std::size_t gate_at = index_of(n, f, 2 * c.width);
      const std::size_t up_at = index_of(n, c.width + f, 2 * c.width);
      const double gate = gate_up[gate_at];
      const double up = gate_up[up_at];
      const auto [s, slope, roundings, slope_size] = opened(activation, gate);
      y.values[i] = gate * s * up;
      y.error[i] = roundings * std::abs(y.values[i]);
      d_gate_up.values[gate_at] = d_y[i] * up * slope;
      d_gate_up.error[gate_at] = (roundings + 4) * std::abs(d_y[i] * up) * slope_size;
      d_gate_up.values[up_at] = d_y[i] * gate * s;
      d_gate_up.error[up_at] = roundings * std::abs(d_gate_up.values[up_at]);
    }
  }
  const TensorView d_gate_up_in = runner.upload(gate_up, dtype, wide_shape, 2 * c.width + c.gap);
  const TensorView forward = runner.output(dtype, narrow_shape, c.width + c.gap);
  runner.run(SwigluForward{.gate_up = d_gate_up_in, .y = forward, .activation = activation});
  runner.require_close("y", forward, y, accumulator);
  const TensorView d_y_in = runner.upload(d_y, dtype, narrow_shape, c.width + 2 * c.gap);
  const TensorView d_out =
      c.in_place ? d_gate_up_in : runner.output(dtype, wide_shape, 2 * c.width + c.gap);
  const TensorView again =
      c.in_place ? d_y_in : runner.output(dtype, narrow_shape, c.width + c.gap);
  runner.run(SwigluBackward{.d_y = d_y_in,
                            .gate_up = d_gate_up_in,
                            .d_gate_up = d_out,
                            .y = again,
                            .activation = activation});
  runner.require_close("d_gate_up", d_out, d_gate_up, accumulator);
  runner.require_close("y", again, y, accumulator);
  return runner.outputs();
}

Outputs check_rmsnorm_forward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                              double offset) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const double width = static_cast<double>(c.width);
  const auto x = random_values(1, shape.elements(), dtype);
  const auto added = random_values(2, shape.elements(), dtype);
  const auto weight = random_values(3, c.width, dtype);
  const double eps = 1e-5;
  std::vector<double> sum = x;
  Expected y(shape.elements());
  Expected rstd(c.tokens);
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    double squares = 0;
    for (std::int64_t i = 0; i < c.width; ++i) {
      double& s = sum[index_of(n, i, c.width)];
      if (residual) s = sum_in(accumulator, dtype, s, added[index_of(n, i, c.width)]);
      squares += s * s;
    }
    const double scale = 1 / std::sqrt(squares / width + eps);
    rstd.values[static_cast<std::size_t>(n)] = scale;
    rstd.error[static_cast<std::size_t>(n)] = (width / 2 + 4) * scale;
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::size_t k = index_of(n, i, c.width);
      const double factor = weight[static_cast<std::size_t>(i)] + offset;
      y.values[k] = sum[k] * scale * factor;
      y.error[k] = (width / 2 + 6 + (offset == 0 ? 0 : 1)) * std::abs(y.values[k]);
    }
  }
  RmsNormForward op;
  op.eps = eps;
  op.offset = offset;
  const TensorView dx = runner.upload(x, dtype, shape, c.width + c.gap);
  op.x = dx;
  op.weight = runner.upload(weight, dtype, {c.width});
  op.y = c.in_place ? dx : runner.output(dtype, shape, c.width + 2 * c.gap);
  op.rstd = runner.output(accumulator, {c.tokens});
  if (residual) {
    const TensorView d_added = runner.upload(added, dtype, shape, c.width + c.gap);
    op.residual = d_added;
    op.sum = c.in_place ? d_added : runner.output(dtype, shape, c.width + c.gap);
  }
  runner.run(op);
  runner.require_close("y", op.y, y, accumulator);
  runner.require_close("rstd", op.rstd, rstd, accumulator);
  if (residual) runner.require_equal("sum", op.sum, sum);
  if (residual && c.in_place) {  // the other way round
    const TensorView sum_over_x = runner.upload(x, dtype, shape, c.width + c.gap);
    const TensorView y_over_residual = runner.upload(added, dtype, shape, c.width + c.gap);
    op.x = op.sum = sum_over_x;
    op.residual = op.y = y_over_residual;
    runner.run(op);
    runner.require_equal("y over the residual", op.y, std::vector(runner.outputs()[0]));
    runner.require_equal("sum over x", op.sum, sum);
  }
  return runner.outputs();
}

Outputs check_rmsnorm_backward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                               double offset) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const double width = static_cast<double>(c.width);
  const double tokens = static_cast<double>(c.tokens);
  const auto x = random_values(1, shape.elements(), dtype);
  const auto dy = random_values(2, shape.elements(), dtype);
  const auto weight = random_values(3, c.width, dtype);
  const auto d_residual = random_values(4, shape.elements(), dtype);
  const auto before = random_values(5, c.width, accumulator);
  std::vector<double> rstd = random_values(6, c.tokens, accumulator);
  for (double& r : rstd) r = std::abs(r);
  Expected dx(shape.elements());
  Expected d_weight(c.width);
  d_weight.values = before;
  for (std::size_t i = 0; i < before.size(); ++i) d_weight.error[i] = tokens * std::abs(before[i]);
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const double scale = rstd[static_cast<std::size_t>(n)];
    double mean = 0;
    double mean_magnitude = 0;
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::size_t k = index_of(n, i, c.width);
      const double term =
          (weight[static_cast<std::size_t>(i)] + offset) * dy[k] * x[k] * scale / width;
      mean += term;
      mean_magnitude += std::abs(term);
    }
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::size_t k = index_of(n, i, c.width);
      const std::size_t column = static_cast<std::size_t>(i);
      const double g = (weight[column] + offset) * dy[k];
      const double added = residual ? d_residual[k] : 0;
      dx.values[k] = added + scale * (g - x[k] * scale * mean);
      dx.error[k] =
          std::abs(added) + (offset == 0 ? 5 : 6) * scale * std::abs(g) +
          (width + (offset == 0 ? 9 : 10)) * scale * std::abs(x[k] * scale) * mean_magnitude;
      d_weight.values[column] += dy[k] * x[k] * scale;
      d_weight.error[column] += (tokens + 3) * std::abs(dy[k] * x[k] * scale);
    }
  }
  RmsNormBackward op;
  op.offset = offset;
  const TensorView d_dy = runner.upload(dy, dtype, shape, c.width + c.gap);
  op.dy = d_dy;
  op.x = runner.upload(x, dtype, shape, c.width + 2 * c.gap);
  op.weight = runner.upload(weight, dtype, {c.width});
  op.rstd = runner.upload(rstd, accumulator, {c.tokens});
  op.dx = c.in_place ? d_dy : runner.output(dtype, shape, c.width + c.gap);
  if (residual) {
    const TensorView d_added = runner.upload(d_residual, dtype, shape, c.width + c.gap);
    op.d_residual = d_added;
    if (c.in_place) op.dx = d_added;
  }
  op.d_weight = runner.upload(before, accumulator, {c.width});
  op.workspace = runner.output(accumulator, {RmsNormBackward::kWorkspaceRows, c.width});
  runner.run(op);
  runner.require_close("dx", op.dx, dx, accumulator);
  runner.require_close("d_weight", op.d_weight, d_weight, accumulator);
  if (!c.in_place) {
    const std::vector<double> with_d_weight = runner.download(op.dx);
    op.d_weight = {};
    op.dx = runner.output(dtype, shape, c.width + c.gap);
    runner.run(op);
    runner.require_equal("dx where nobody trains the weight", op.dx, with_d_weight);
  }
  return runner.outputs();
}

}  // namespace strata
