// Checks of cross-entropy, compared with its formula in f64, and the gradient with that in long
// double.

#include <algorithm>
#include <array>
#include <cmath>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

Outputs check_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c, bool gradient) {
  runner.reset(text_of(dtype, c));
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
      const std::size_t k = index_of(n, v, c.width);
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
  runner.require_close("loss", op.loss, loss, accumulator);
  runner.require_close("lse", op.lse, lse, accumulator);
  if (gradient) runner.require_close("d_logits", op.d_logits, d_logits, accumulator);
  return runner.outputs();
}

Outputs check_scaled_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const Shape shape{c.tokens, c.width};
  const std::vector<double> logits = random_values(1, shape.elements(), dtype);
  const std::vector<double> targets = random_integers(2, c.tokens, c.width);
  const auto gradient = [&](const std::vector<double>& scales) {
    CrossEntropy op;
    const TensorView d_in = runner.upload(logits, dtype, shape, c.width + c.gap);
    op.logits = d_in;
    op.targets = runner.upload(targets, DType::kI32, {c.tokens});
    op.loss = runner.output(accumulator, {c.tokens});
    op.lse = runner.output(accumulator, {c.tokens});
    op.grad_scale = runner.upload(scales, accumulator, {std::ssize(scales)});
    op.d_logits = c.in_place ? d_in : runner.output(dtype, shape, c.width + c.gap);
    runner.run(op);
    return runner.download(op.d_logits);
  };
  constexpr std::array kScales{0.375, -2.0};
  const std::array alone{gradient({kScales[0]}), gradient({kScales[1]})};
  std::vector<double> scales;
  std::vector<double> expected;
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const auto which = static_cast<std::size_t>(n % 2);
    scales.push_back(kScales.at(which));
    const auto begin = alone.at(which).begin() + n * c.width;
    expected.insert(expected.end(), begin, begin + c.width);
  }
  runner.require_equal("d_logits", gradient(scales), expected);
  return runner.outputs();
}

Outputs check_fine_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
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
  const std::vector<double> got = runner.download(op.d_logits);
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
      const long double error = std::abs(got[index_of(n, v, c.width)] - (hit ? p - 1 : p));
      if (!(error <= allowed * (hit ? 1 : p) + kSmallest)) {
        runner.fail(
            fmt::format("d_logits[{}, {}], where the probability is {:.3g}, is off by {:.3g} units "
                        "in the last place",
                        n, v, static_cast<double>(p),
                        static_cast<double>(error / (hit ? 1 : p) * kUlps / allowed)));
      }
    }
  }
  return {got};
}

}  // namespace strata
