// Tests that a row of a batch-invariant product has the same bits whatever number of rows there
// are, on every backend, and on CUDA also whichever kernel computes it.

#include <algorithm>
#include <array>
#include <vector>

#include "strata/op_checks/checks.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

constexpr std::array kNumbersOfRows{1, 3, 8, 9, 16, 17, 33, 64, 65, 128, 300};

/// check_matmul gives the rows of smaller cases the numbers that those of larger ones have.
Outputs product(OpRunner& runner, DType dtype, const MatmulCase& c) {
  return check_matmul(runner, dtype, dtype, MatmulLayout::kNT, MatmulUpdate::kOverwrite, c, true);
}

void require_invariant(OpRunner& runner, DType dtype, const MatmulCase& most,
                       const std::vector<double>& rows_of_most) {
  for (const int rows : kNumbersOfRows) {
    MatmulCase c = most;
    c.m = rows;
    const Outputs got = product(runner, dtype, c);
    REQUIRE(got[0].size() == static_cast<std::size_t>(rows * c.n));
    CHECK(std::equal(got[0].begin(), got[0].end(), rows_of_most.begin()));
  }
}

void require_invariant(OpRunner& runner, DType dtype, const MatmulCase& most) {
  INFO(name_of(dtype) << ", n " << most.n << ", k " << most.k << ", gap " << most.gap);
  require_invariant(runner, dtype, most, product(runner, dtype, most).at(0));
}

const std::vector<MatmulCase>& cases() {
  static const std::vector<MatmulCase> all{
      {300, 96, 256}, {300, 70, 328}, {300, 33, 77}, {300, 40, 200, 8}, {300, 24, 16, 3}};
  return all;
}

}  // namespace

TEST_CASE("rows of batch-invariant products do not depend on how many there are", "[ops]") {
  Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 2});
  OpRunner runner(backend);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    require_invariant(runner, dtype, cases()[1]);
  }
}

TEST_CASE("rows of batch-invariant products on cuda do not depend on how many there are",
          "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const MatmulCase& c : cases()) require_invariant(runner, dtype, c);
  }
}

TEST_CASE("algorithms of the library have the bits of the kernel for few rows", "[cuda]") {
  if (without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
    OpRunner runner(backend);
    const MatmulCase most{300, 512, 1040};
    const std::vector<double> before = product(runner, dtype, most).at(0);
    const Shape a{most.m, most.k};
    const Shape b{most.n, most.k};
    runner.kernels().prepare(Matmul{.a = ConstTensorView(nullptr, dtype, a),
                                    .b = ConstTensorView(nullptr, dtype, b),
                                    .out = TensorView(nullptr, dtype, Shape{most.m, most.n}),
                                    .batch_invariant = true});
    require_invariant(runner, dtype, most, before);
  }
}

}  // namespace strata::test
