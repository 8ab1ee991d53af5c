// Cases of the operators that work row by row, compared with their formulas in f64: residual add,
// biases, SwiGLU, RMSNorm and cross-entropy.

#include <algorithm>
#include <array>
#include <cmath>

#include "support/catch.h"
#include "support/op_cases.h"
#include "support/op_reference.h"

namespace strata::test {

namespace {

std::size_t at(std::int64_t row, std::int64_t column, std::int64_t width) {
  return static_cast<std::size_t>(row * width + column);
}

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
  runner.reset();
  const Shape shape{c.tokens, c.width};
  const auto a = random_values(1, shape.elements(), dtype);
  const auto b = random_values(2, shape.elements(), dtype);
  const TensorView da = runner.upload(a, dtype, shape, c.width + c.gap);
  const TensorView db = runner.upload(b, dtype, shape, c.width + 2 * c.gap);
  const TensorView y = c.in_place ? da : runner.output(dtype, shape, c.width + c.gap);
  runner.run(ResidualAdd{.a = da, .b = db, .y = y});
  const Outputs got{runner.download(y)};
  std::vector<double> expected(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected[i] = sum_in(accumulator_of(dtype), dtype, a[i], b[i]);
  }
  require_equal("y", got[0], expected);
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_bias(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset();
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
      const std::size_t k = at(n, i, c.width);
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
  const TensorView y = c.in_place ? d_x : runner.output(dtype, shape, c.width + 2 * c.gap);
  runner.run(BiasAdd{.x = d_x, .bias = runner.upload(bias, dtype, {c.width}), .y = y});
  const Outputs got{runner.download(y), runner.download(gradient)};
  require_equal("y", got[0], sum);
  require_close("d_bias", got[1], d_bias, accumulator, accumulator);
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_soft_cap(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset();
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
  runner.run(backward);
  Outputs got{runner.download(forward.y), runner.download(backward.dx)};
  require_close("y", got[0], y, dtype, accumulator);
  require_close("dx", got[1], dx, dtype, accumulator);
  REQUIRE(runner.guards_intact());
  return got;
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
  runner.reset();
  const DType accumulator = accumulator_of(dtype);
  const Shape narrow_shape{c.tokens, c.width};
  const Shape wide_shape{c.tokens, 2 * c.width};
  const auto gate_up = random_values(1, wide_shape.elements(), dtype);
  const auto d_y = random_values(2, narrow_shape.elements(), dtype);
  Expected y(narrow_shape.elements());
  Expected d_gate_up(wide_shape.elements());
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    for (std::int64_t f = 0; f < c.width; ++f) {
      const std::size_t i = at(n, f, c.width);
      const std::size_t gate_at = at(n, f, 2 * c.width);
      const std::size_t up_at = at(n, c.width + f, 2 * c.width);
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
  const TensorView d_y_in = runner.upload(d_y, dtype, narrow_shape, c.width + 2 * c.gap);
  const TensorView d_out =
      c.in_place ? d_gate_up_in : runner.output(dtype, wide_shape, 2 * c.width + c.gap);
  const TensorView again =
      c.in_place ? d_y_in : runner.output(dtype, narrow_shape, c.width + c.gap);
  const auto got_forward = runner.download(forward);
  runner.run(SwigluBackward{.d_y = d_y_in,
                            .gate_up = d_gate_up_in,
                            .d_gate_up = d_out,
                            .y = again,
                            .activation = activation});
  const Outputs got{got_forward, runner.download(d_out), runner.download(again)};
  require_close("y of forward", got[0], y, dtype, accumulator);
  require_close("d_gate_up", got[1], d_gate_up, dtype, accumulator);
  require_close("y of backward", got[2], y, dtype, accumulator);
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_rmsnorm_forward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                              double offset) {
  runner.reset();
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
      double& s = sum[at(n, i, c.width)];
      if (residual) s = sum_in(accumulator, dtype, s, added[at(n, i, c.width)]);
      squares += s * s;
    }
    const double scale = 1 / std::sqrt(squares / width + eps);
    rstd.values[static_cast<std::size_t>(n)] = scale;
    rstd.error[static_cast<std::size_t>(n)] = (width / 2 + 4) * scale;
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::size_t k = at(n, i, c.width);
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
  Outputs got{runner.download(op.y), runner.download(op.rstd)};
  require_close("y", got[0], y, dtype, accumulator);
  require_close("rstd", got[1], rstd, accumulator, accumulator);
  if (residual) {
    got.push_back(runner.download(op.sum));
    require_equal("sum", got[2], sum);
  }
  if (residual && c.in_place) {  // the other way round
    const TensorView sum_over_x = runner.upload(x, dtype, shape, c.width + c.gap);
    const TensorView y_over_residual = runner.upload(added, dtype, shape, c.width + c.gap);
    op.x = op.sum = sum_over_x;
    op.residual = op.y = y_over_residual;
    runner.run(op);
    require_equal("y over the residual", runner.download(op.y), got[0]);
    require_equal("sum over x", runner.download(op.sum), sum);
  }
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_rmsnorm_backward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                               double offset) {
  runner.reset();
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
      const std::size_t k = at(n, i, c.width);
      const double term =
          (weight[static_cast<std::size_t>(i)] + offset) * dy[k] * x[k] * scale / width;
      mean += term;
      mean_magnitude += std::abs(term);
    }
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::size_t k = at(n, i, c.width);
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
  const Outputs got{runner.download(op.dx), runner.download(op.d_weight)};
  require_close("dx", got[0], dx, dtype, accumulator);
  require_close("d_weight", got[1], d_weight, accumulator, accumulator);
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c, bool gradient) {
  runner.reset();
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  std::vector<double> logits = random_values(1, shape.elements(), dtype);
  for (double& l : logits) l *= 8;  // exact; far enough apart that the maximum matters
  std::vector<double> targets = random_integers(2, c.tokens, c.width);
  for (std::size_t n = 0; n < targets.size(); ++n) {
    if (n % 5 == 1) targets[n] = CrossEntropy::kIgnoreIndex;
    if (n % 5 == 2) targets[n] = static_cast<double>(c.width - 1);
  }
  const double grad_scale = rounded_to(accumulator, 0.37);
  Expected loss(c.tokens);
  Expected lse(c.tokens);
  Expected d_logits(shape.elements());
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const auto row_at = static_cast<std::size_t>(n);
    const double* row = logits.data() + n * c.width;
    const double top = *std::max_element(row, row + c.width);
    double sum = 0;
    double exponents = 0;  // relative error of the sum, from rounding the arguments of exp
    for (std::int64_t v = 0; v < c.width; ++v) {
      sum += std::exp(row[v] - top);
      exponents += std::exp(row[v] - top) * (top - row[v]);
    }
    lse.values[row_at] = top + std::log(sum);
    lse.error[row_at] = static_cast<double>(c.width) + 4 + exponents / sum + std::log(sum) +
                        std::abs(lse.values[row_at]);
    const bool ignored = targets[row_at] == CrossEntropy::kIgnoreIndex;
    if (ignored) continue;
    const double logit = row[static_cast<std::int64_t>(targets[row_at])];
    loss.values[row_at] = lse.values[row_at] - logit;
    loss.error[row_at] = lse.error[row_at] + std::abs(loss.values[row_at]);
    for (std::int64_t v = 0; v < c.width; ++v) {
      const std::size_t k = at(n, v, c.width);
      const double p = std::exp(row[v] - lse.values[row_at]);
      const double hit = v == static_cast<std::int64_t>(targets[row_at]) ? 1 : 0;
      d_logits.values[k] = (p - hit) * grad_scale;
      d_logits.error[k] = grad_scale * (p * (lse.error[row_at] + std::abs(row[v]) + 8) + 2 * hit);
    }
  }
  CrossEntropy op;
  const TensorView d_in = runner.upload(logits, dtype, shape, c.width + c.gap);
  op.logits = d_in;
  op.targets = runner.upload(targets, DType::kI32, {c.tokens});
  op.loss = runner.output(accumulator, {c.tokens});
  op.lse = runner.output(accumulator, {c.tokens});
  if (gradient) {
    op.grad_scale = runner.upload({grad_scale}, accumulator, {1});
    op.d_logits = c.in_place ? d_in : runner.output(dtype, shape, c.width + c.gap);
  }
  runner.run(op);
  Outputs got{runner.download(op.loss), runner.download(op.lse)};
  require_close("loss", got[0], loss, accumulator, accumulator);
  require_close("lse", got[1], lse, accumulator, accumulator);
  if (gradient) {
    got.push_back(runner.download(op.d_logits));
    require_close("d_logits", got[2], d_logits, dtype, accumulator);
  }
  REQUIRE(runner.guards_intact());
  return got;
}

Outputs check_fine_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset();
  constexpr std::array kOffsets{0.0, 20.0, -300.0, 1000.0};
  constexpr std::array kSpreads{1.0, 8.0};
  const Shape shape{c.tokens, c.width};
  std::vector<double> logits = random_values(1, shape.elements(), dtype);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::size_t n = i / static_cast<std::size_t>(c.width);
    logits[i] = rounded_to(dtype, logits[i] * kSpreads[n % 2] + kOffsets[n / 2 % 4]);
  }
  const std::vector<double> targets = random_integers(2, c.tokens, c.width);
  CrossEntropy op;
  const TensorView d_in = runner.upload(logits, dtype, shape, c.width + c.gap);
  op.logits = d_in;
  op.targets = runner.upload(targets, DType::kI32, {c.tokens});
  op.loss = runner.output(dtype, {c.tokens});
  op.lse = runner.output(dtype, {c.tokens});
  op.grad_scale = runner.upload({1.0}, dtype, {1});
  op.d_logits = c.in_place ? d_in : runner.output(dtype, shape, c.width + c.gap);
  runner.run(op);
  const Outputs got{runner.download(op.d_logits)};
  constexpr long double kUlps = 8;
  const long double allowed = kUlps * 2 * unit_roundoff(dtype);
  constexpr long double kSmallest = 1e-30L;  // what is near the end of f32's range has fewer bits
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const double* row = logits.data() + n * c.width;
    const double top = *std::max_element(row, row + c.width);
    long double sum = 0;
    for (std::int64_t v = 0; v < c.width; ++v) {
      sum += std::exp(static_cast<long double>(row[v]) - top);
    }
    for (std::int64_t v = 0; v < c.width; ++v) {
      const bool hit = v == static_cast<std::int64_t>(targets[static_cast<std::size_t>(n)]);
      const long double p = std::exp(static_cast<long double>(row[v]) - top) / sum;
      const long double error = std::abs(got[0][at(n, v, c.width)] - (hit ? p - 1 : p));
      if (!(error <= allowed * (hit ? 1 : p) + kSmallest)) {
        FAIL("d_logits[" << n << ", " << v << "], where the probability is "
                         << static_cast<double>(p) << ", is off by "
                         << static_cast<double>(error / (hit ? 1 : p) * kUlps / allowed)
                         << " units in the last place");
      }
    }
  }
  REQUIRE(runner.guards_intact());
  return got;
}

}  // namespace strata::test
