// Checks of linear layers that are fused with what is before and after them: compared with the
// formula in f64, and bit by bit with their parts, run one after the other.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "strata/base/log.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {
namespace {

/// The tensors' numbers, drawn once for both ways to run the layer.
struct FusedNumbers {
  std::vector<double> x, added, norm_weight, b, residual;

  FusedNumbers(DType dtype, const FusedCase& c)
      : x(random_values(1, c.m * c.k, dtype)),
        added(random_values(2, c.m * c.k, dtype)),
        norm_weight(random_values(3, c.k, dtype)),
        b(random_values(4, c.n * c.k, dtype)),
        residual(random_values(5, c.m * c.n, dtype)) {}
};

constexpr double kEps = 1e-5;

/// Returns what the product reads, unrounded, and x + added if there is that.
struct Inputs {
  std::vector<double> read, sum;
};
Inputs inputs_of(DType dtype, const FusedCase& c, const FusedNumbers& numbers) {
  Inputs in{.read = numbers.x, .sum = {}};
  if (c.before == FusedBefore::kNothing) return in;
  in.sum = numbers.x;
  for (std::int64_t m = 0; m < c.m; ++m) {
    double squares = 0;
    for (std::int64_t k = 0; k < c.k; ++k) {
      double& s = in.sum[index_of(m, k, c.k)];
      if (c.before == FusedBefore::kResidualNorm) {
        s = rounded_to(dtype, s + numbers.added[index_of(m, k, c.k)]);
      }
      squares += s * s;
    }
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(c.k) + kEps);
    for (std::int64_t k = 0; k < c.k; ++k) {
      in.read[index_of(m, k, c.k)] = in.sum[index_of(m, k, c.k)] * rstd *
                                     (numbers.norm_weight[static_cast<std::size_t>(k)] + c.offset);
    }
  }
  return in;
}

/// Makes the layer, of tensors that the numbers were uploaded to.
FusedLinear layer_of(OpRunner& runner, DType dtype, const FusedCase& c,
                     const FusedNumbers& numbers) {
  FusedLinear op;
  const Shape in{c.m, c.k};
  const Shape out{c.m, c.n};
  switch (c.before) {
    case FusedBefore::kNothing:
      op.product.a = runner.upload(numbers.x, dtype, in, c.k + c.gap);
      break;
    case FusedBefore::kNorm:
    case FusedBefore::kResidualNorm: {
      TensorView y = runner.output(dtype, in, c.k + c.gap);
      op.norm.x = runner.upload(numbers.x, dtype, in, c.k + 2 * c.gap);
      op.norm.weight = runner.upload(numbers.norm_weight, dtype, {c.k});
      op.norm.rstd = runner.output(accumulator_of(dtype), {c.m});
      op.norm.eps = kEps;
      op.norm.offset = c.offset;
      if (c.before == FusedBefore::kResidualNorm) {
        y = runner.upload(numbers.added, dtype, in, c.k + c.gap);  // in place, as the model has it
        op.norm.residual = y;
        op.norm.sum = runner.output(dtype, in, c.k + c.gap);
      }
      op.norm.y = y;
      op.product.a = y;
      break;
    }
  }
  op.product.b = runner.upload(numbers.b, dtype, {c.n, c.k}, c.k + 2 * c.gap);
  op.product.out = runner.output(dtype, out, c.n + c.gap);
  op.product.batch_invariant = true;
  op.product.alpha = c.alpha;
  if (c.after == FusedAfter::kGate) {
    op.gate = {.gate_up = op.product.out,
               .y = runner.output(dtype, {c.m, c.n / 2}, c.n / 2 + c.gap),
               .activation = c.activation};
  } else if (c.after == FusedAfter::kResidual) {
    op.residual = {.a = runner.upload(numbers.residual, dtype, out, c.n + 2 * c.gap),
                   .b = op.product.out,
                   .y = op.product.out};
  }
  return op;
}

/// Returns what a gate of this activation opens to.
double opened_value(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kGelu: return x / 2 * std::erfc(-x / std::sqrt(2.0));
  }
  throw std::logic_error("no activation");
}

/// Returns what SwiGLU makes of a product. It has a slope of at most 1.13 by the gate, and its
/// arithmetic some errors of its own.
Expected gated(const FusedCase& c, const Expected& product) {
  const std::int64_t half = c.n / 2;
  Expected y(c.m * half);
  y.intermediate_error.resize(y.values.size());
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t n = 0; n < half; ++n) {
      const std::size_t gate = index_of(m, n, c.n);
      const std::size_t up = index_of(m, half + n, c.n);
      const std::size_t i = index_of(m, n, half);
      const double g = product.values[gate];
      const double opening = opened_value(c.activation, g);
      const double by_gate = 1.13 * std::abs(product.values[up]);
      y.values[i] = opening * product.values[up];
      y.error[i] = by_gate * product.error[gate] + std::abs(opening) * product.error[up] +
                   32 * std::abs(y.values[i]);
      // Both halves are rounded before.
      y.intermediate_error[i] =
          by_gate * (product.intermediate_error[gate] + std::abs(g)) +
          std::abs(opening) * (product.intermediate_error[up] + std::abs(product.values[up]));
    }
  }
  return y;
}

}  // namespace

std::vector<FusedCase> fused_cases() {
  std::vector<FusedCase> all;
  for (const FusedBefore before : kAllBefore) {
    for (const FusedAfter after : kAllAfter) {
      all.push_back({1, 96, 256, 0, before, after});
      all.push_back({3, 70, 328, 8, before, after});
      all.push_back({4, 34, 77, 0, before, after});
      all.push_back({2, 2, 1, 3, before, after});
      all.push_back({2, 40, 128, 0, before, after, 0.22, 1, Activation::kGeluTanh});
      all.push_back({3, 40, 96, 0, before, after, 1, 1, Activation::kGelu});
    }
  }
  return all;
}

Outputs check_fused_linear(OpRunner& runner, DType dtype, const FusedCase& c) {
  const std::string text =
      fmt::format("{}, m {}, n {}, k {}, gap {}, before {}, after {}", name_of(dtype), c.m, c.n,
                  c.k, c.gap, static_cast<int>(c.before), static_cast<int>(c.after));
  const FusedNumbers numbers(dtype, c);
  const Inputs in = inputs_of(dtype, c, numbers);
  const bool rounds_before = c.before != FusedBefore::kNothing;
  Expected expected(c.m * c.n);
  expected.intermediate_error.resize(expected.values.size());
  const auto width = static_cast<double>(c.k);
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t n = 0; n < c.n; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double product =
            c.alpha * in.read[index_of(m, k, c.k)] * numbers.b[index_of(n, k, c.k)];
        sum += product;
        magnitude += std::abs(product);
      }
      const std::size_t i = index_of(m, n, c.n);
      expected.values[i] = sum;
      // A norm's scale and a sigmoid have errors of their own, of either side's arithmetic.
      expected.error[i] =
          (width + (c.alpha == 1 ? 1 : 3) + (rounds_before ? width + 32 : 0)) * magnitude;
      expected.intermediate_error[i] = rounds_before ? magnitude : 0;
      if (c.after == FusedAfter::kResidual) {
        expected.values[i] += numbers.residual[i];
        expected.intermediate_error[i] += std::abs(sum);
      }
    }
  }
  if (c.after == FusedAfter::kGate) expected = gated(c, expected);
  const auto result_of = [](const FusedLinear& op) {
    return op.gate.y ? op.gate.y : op.product.out;
  };
  runner.reset(text);
  const FusedLinear op = layer_of(runner, dtype, c, numbers);
  runner.run(op);
  runner.require_close("out", result_of(op), expected, accumulator_of(dtype), dtype);
  if (op.norm.sum) runner.require_equal("sum", op.norm.sum, in.sum);
  const Outputs got = runner.outputs();

  runner.reset(text + ", in parts");
  const FusedLinear parts = layer_of(runner, dtype, c, numbers);
  for_each_part(parts, [&](const auto& part) { runner.run(part); });
  runner.require_equal("out", result_of(parts), got[0]);
  if (op.norm.sum) runner.require_equal("sum", parts.norm.sum, got[1]);
  return got;
}

}  // namespace strata
