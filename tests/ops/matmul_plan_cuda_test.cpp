// Tests tuned matrix products on a GPU: they follow the formula, repeat bit for bit, and are the
// same again from a plan's line.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/without_fp8.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

Backend gpu(std::size_t workspace_bytes = 32 * kMiB) {
  return make_backend(BackendKind::kCuda,
                      {.device = {}, .threads = 1, .matmul_workspace_bytes = workspace_bytes});
}

/// One kind of product of check_matmul.
struct Product {
  DType in, out;
  MatmulLayout layout;
  MatmulUpdate update;
  MatmulCase size;

  [[nodiscard]] MatmulShape shape() const {
    const bool a_transposed = layout == MatmulLayout::kTN;
    const bool b_transposed = layout == MatmulLayout::kNT;
    return {.m = size.m,
            .n = size.n,
            .k = size.k,
            .stride_a = (a_transposed ? size.m : size.k) + size.gap,
            .stride_b = (b_transposed ? size.k : size.n) + 2 * size.gap,
            .stride_out = size.n + size.gap,
            .layout = layout,
            .update = update,
            .in = in,
            .out = out,
            .bias = size.bias};
  }
  Outputs run(OpRunner& runner) const {
    return check_matmul(runner, in, out, layout, update, size, false, in);
  }
};

/// Forward, input gradient and weight gradient of a layer; the last one's long sums invite split-K.
std::vector<Product> products() {
  std::vector<Product> all;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const MatmulCase& size : {MatmulCase{256, 384, 192}, MatmulCase{72, 136, 320, 8}}) {
      all.push_back({dtype, dtype, MatmulLayout::kNT, MatmulUpdate::kOverwrite, size});
      all.push_back({dtype, dtype, MatmulLayout::kNN, MatmulUpdate::kOverwrite, size});
      MatmulCase biased = size;
      biased.bias = true;
      all.push_back({dtype, dtype, MatmulLayout::kNT, MatmulUpdate::kOverwrite, biased});
      all.push_back({dtype, dtype, MatmulLayout::kNT, MatmulUpdate::kAccumulate, size});
    }
    all.push_back(
        {dtype, DType::kF32, MatmulLayout::kTN, MatmulUpdate::kOverwrite, {64, 128, 2048}});
    all.push_back(
        {dtype, DType::kF32, MatmulLayout::kTN, MatmulUpdate::kAccumulate, {64, 128, 2048}});
  }
  return all;
}

std::vector<MatmulShape> shapes_of(const std::vector<Product>& all) {
  std::vector<MatmulShape> shapes;
  for (const Product& product : all) shapes.push_back(product.shape());
  return shapes;
}

void require_same(const Outputs& got, const Outputs& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) require_equal("out", got[i], expected[i]);
}

}  // namespace

TEST_CASE("tuned products follow the formula and repeat, also from their lines", "[cuda]") {
  if (without_gpu()) return;
  constexpr int kRuns = 100;
  const std::vector<Product> all = products();
  std::vector<std::string> lines;
  std::vector<Outputs> outputs;
  {
    Backend backend = gpu();
    OpRunner runner(backend, kRuns);
    MatmulTuner& tuner = *backend.kernels->matmul_tuner();
    const std::vector<MatmulPlan> plans = tuner.tune(shapes_of(all), kGiB);
    REQUIRE(plans.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO(to_string(all[i].shape()));
      CHECK(plans[i].shape == all[i].shape());
      CHECK(plans[i].measured_us > 0);
      tuner.use(plans[i]);
      lines.push_back(to_line(plans[i]));
      outputs.push_back(all[i].run(runner));
      require_same(all[i].run(runner), outputs.back());
    }
  }
  Backend backend = gpu();
  OpRunner runner(backend);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(lines[i]);
    const MatmulPlan plan = parse_matmul_plan(lines[i]);
    CHECK(to_line(plan) == lines[i]);
    backend.kernels->matmul_tuner()->use(plan);
    require_same(all[i].run(runner), outputs[i]);
  }
}

TEST_CASE("tuned products in e4m3 are near those of the rounded numbers and repeat",
          "[cuda][fp8]") {
  if (without_gpu()) return;
  constexpr int kRuns = 100;
  Backend backend = gpu();
  OpRunner runner(backend, kRuns);
  if (without_fp8(runner)) return;
  const MatmulCase size{256, 384, 2048};
  for (const MatmulUpdate update : {MatmulUpdate::kOverwrite, MatmulUpdate::kAccumulate}) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      if (update == MatmulUpdate::kAccumulate && out == DType::kBF16) continue;
      const Product product{DType::kE4M3, out, MatmulLayout::kNT, update, size};
      const std::vector<MatmulShape> shapes{product.shape()};
      const std::vector<MatmulPlan> plans = backend.kernels->matmul_tuner()->tune(shapes, kGiB);
      INFO(to_line(plans.front()));
      CHECK(plans.front().measured_us > 0);
      backend.kernels->matmul_tuner()->use(parse_matmul_plan(to_line(plans.front())));
      const Outputs got = check_fp8_matmul(runner, out, update, size, false);
      require_same(check_fp8_matmul(runner, out, update, size, false), got);
    }
  }
}

TEST_CASE("products run with the plan that they were given", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = gpu();
  OpRunner runner(backend);
  const Product product{
      DType::kF32, DType::kF32, MatmulLayout::kNT, MatmulUpdate::kOverwrite, {64, 64, 512}};
  // The plain kernel is known by its sums: fused multiply-adds in ascending k.
  backend.kernels->matmul_tuner()->use({.shape = product.shape(), .algorithm = "plain"});
  const Outputs got = product.run(runner);
  const auto a = random_values(1, 64 * 512, DType::kF32);
  const auto b = random_values(2, 64 * 512, DType::kF32);
  std::vector<double> expected;
  for (std::size_t m = 0; m < 64; ++m) {
    for (std::size_t n = 0; n < 64; ++n) {
      float sum = 0;
      for (std::size_t k = 0; k < 512; ++k) {
        sum = std::fma(static_cast<float>(a[m * 512 + k]), static_cast<float>(b[n * 512 + k]), sum);
      }
      expected.push_back(static_cast<double>(sum));
    }
  }
  require_equal("out", got[0], expected);
}

TEST_CASE("plans that cannot be used are refused and change nothing", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = gpu();
  OpRunner runner(backend);
  MatmulTuner& tuner = *backend.kernels->matmul_tuner();
  const std::vector<Product> all = products();
  const Outputs before = all[0].run(runner);
  REQUIRE_THROWS_WITH(tuner.use({.shape = all[0].shape(), .algorithm = "0123"}),
                      ContainsSubstring("\"0123\" is not an algorithm"));
  // Of bf16 operands, for f32 ones.
  MatmulPlan plan = tuner.tune(shapes_of({all[0]}), 0).front();
  plan.shape.in = plan.shape.out = DType::kF32;
  REQUIRE_THROWS_WITH(tuner.use(plan), ContainsSubstring(to_string(plan.shape)));
  require_same(all[0].run(runner), before);
}

TEST_CASE("without memory the tuner takes first proposals, unmeasured", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = gpu();
  OpRunner runner(backend);
  MatmulTuner& tuner = *backend.kernels->matmul_tuner();
  const std::vector<Product> all = products();
  for (const Product& product : all) {
    INFO(to_string(product.shape()));
    const Outputs first = product.run(runner);
    const MatmulPlan plan = tuner.tune(shapes_of({product}), 0).front();
    CHECK(plan.measured_us == 0);
    tuner.use(plan);
    require_same(product.run(runner), first);
  }
  for (const MatmulComparison& none : tuner.compare(shapes_of(all), 0)) CHECK(none.best_s == 0);
}

TEST_CASE("the tuner keeps to the workspace there is", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = gpu(0);
  OpRunner runner(backend);
  MatmulTuner& tuner = *backend.kernels->matmul_tuner();
  for (const Product& product : products()) {
    INFO(to_string(product.shape()));
    tuner.use(tuner.tune(shapes_of({product}), kGiB).front());
    product.run(runner);
  }
}

TEST_CASE("a tuned product is as fast as the best algorithm that repeats", "[cuda][alone]") {
  if (without_gpu()) return;
  Backend backend = gpu();
  MatmulTuner& tuner = *backend.kernels->matmul_tuner();
  const MatmulCase size{4096, 4096, 2048};
  const std::vector<MatmulShape> shapes{
      Product{DType::kBF16, DType::kBF16, MatmulLayout::kNT, MatmulUpdate::kOverwrite, size}
          .shape(),
      Product{DType::kBF16,
              DType::kBF16,
              MatmulLayout::kNT,
              MatmulUpdate::kOverwrite,
              {4096, 4608, 3584, 0, 1, true}}
          .shape(),
      Product{DType::kBF16, DType::kF32, MatmulLayout::kTN, MatmulUpdate::kAccumulate, size}
          .shape()};
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const MatmulPlan& plan : tuner.tune(shapes, kMost)) tuner.use(plan);
  for (const MatmulComparison& c : tuner.compare(shapes, kMost)) {
    CHECK(c.best_s > 0);
    CHECK(c.planned_s <= 1.05 * c.first_s);
    CHECK(c.planned_s <= 1.10 * c.best_s);
  }
}

}  // namespace strata::test
