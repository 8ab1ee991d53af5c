// Checks of matmul, compared with three nested loops in f64 in every layout and update.

#include <cmath>

#include "strata/base/log.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

std::vector<MatmulCase> matmul_cases() {
  return {{1, 1, 1},
          {0, 5, 3},
          {5, 0, 3},
          {3, 4, 0},
          {7, 5, 3, 2},
          {13, 33, 17},
          {1, 300, 65},
          {300, 1, 65, 8},
          {64, 64, 64},
          {67, 129, 259, 5},
          {250, 400, 31},
          {96, 80, 600},
          {256, 128, 1, 8},
          {37, 65, 300, 3, -0.3},
          {9, 40, 64, 0, 12},
          {1, 1, 1, 0, 1, true},
          {3, 4, 0, 1, 1, true},
          {67, 129, 259, 5, 1, true},
          {96, 80, 600, 8, 1, true},
          {37, 65, 300, 0, -0.3, true}};
}

Outputs check_matmul(OpRunner& runner, DType dtype, DType out, MatmulLayout layout,
                     MatmulUpdate update, const MatmulCase& c, bool batch_invariant,
                     DType intermediate) {
  const bool adds = update == MatmulUpdate::kAccumulate;
  const bool biased =
      c.bias && layout == MatmulLayout::kNT && !adds && out == dtype && !batch_invariant;
  runner.reset(fmt::format("{}, layout {}, m {}, n {}, k {}, gap {}{}", name_of(dtype),
                           static_cast<int>(layout), c.m, c.n, c.k, c.gap,
                           biased ? ", biased" : ""));
  const DType accumulator = accumulator_of(dtype);
  const bool a_transposed = layout == MatmulLayout::kTN;
  const bool b_transposed = layout == MatmulLayout::kNT;
  const Shape shape_a = a_transposed ? Shape{c.k, c.m} : Shape{c.m, c.k};
  const Shape shape_b = b_transposed ? Shape{c.n, c.k} : Shape{c.k, c.n};
  const Shape shape_out{c.m, c.n};
  const auto a = random_values(1, shape_a.elements(), dtype);
  const auto b = random_values(2, shape_b.elements(), dtype);
  const auto before = random_values(3, shape_out.elements(), out);
  const auto bias = random_values(4, c.n, dtype);

  Expected expected(shape_out.elements());
  const bool joins = biased || (adds && out == dtype);  // something of the compute dtype
  if (joins) expected.intermediate_error.resize(expected.values.size());
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t n = 0; n < c.n; ++n) {
      const auto i = static_cast<std::size_t>(m * c.n + n);
      double sum = adds ? before[i] : 0;
      double magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double product =
            c.alpha * a[static_cast<std::size_t>(a_transposed ? k * c.m + m : m * c.k + k)] *
            b[static_cast<std::size_t>(b_transposed ? n * c.k + k : k * c.n + n)];
        sum += product;
        magnitude += std::abs(product);
      }
      const double added = biased ? bias[static_cast<std::size_t>(n)] : 0;
      expected.values[i] = sum + added;
      if (joins) expected.intermediate_error[i] = std::abs(adds ? sum - before[i] : sum);
      expected.error[i] = static_cast<double>(c.k + (c.alpha == 1 ? 1 : 3)) * magnitude +
                          (biased ? magnitude + std::abs(added) : 0);
    }
  }
  const std::int64_t stride = c.n + c.gap;
  const Matmul op{.a = runner.upload(a, dtype, shape_a, shape_a[1] + c.gap),
                  .b = runner.upload(b, dtype, shape_b, shape_b[1] + 2 * c.gap),
                  .out = adds ? runner.upload(before, out, shape_out, stride)
                              : runner.output(out, shape_out, stride),
                  .layout = layout,
                  .update = update,
                  .batch_invariant = batch_invariant,
                  .alpha = c.alpha,
                  .bias = biased ? runner.upload(bias, dtype, {c.n}) : TensorView()};
  runner.run(op);
  runner.require_close("out", op.out, expected, accumulator, intermediate);
  return runner.outputs();
}

}  // namespace strata
