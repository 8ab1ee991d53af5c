// Runs every operator of the cuda backend at a few shapes, small ones for compute-sanitizer
// (scripts/sanitize_cuda.sh) and larger ones a hundred times, and requires the same bytes each
// time.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/op_cases.h"

namespace strata::test {
namespace {

struct NamedCheck {
  std::string name;
  std::function<void(OpRunner&)> run;
};

/// Shapes of one list: rows of tokens, runs of elements, products, rotated heads.
struct Shapes {
  std::vector<RowsCase> rows;
  std::vector<RowsCase> vocabularies;
  std::vector<std::int64_t> runs;
  std::vector<MatmulCase> products;
  std::vector<RopeCase> heads;
};

/// Every path of every kernel that depends on alignment, width or length, as small as it comes.
const Shapes kSmall{.rows = {{3, 1}, {5, 24}, {7, 33, 3, true}, {2, 2048}, {2, 5000, 8}},
                    .vocabularies = {{3, 1}, {9, 63, 0, true}, {3, 4099, 5}, {2, 131073, 0, true}},
                    .runs = {1, 37, 4097, 20011},
                    .products = {{1, 1, 1}, {33, 40, 24}, {16, 24, 40, 8}},
                    .heads = {{5, 3, 8, 4}, {3, 2, 128, 256}}};

const Shapes kModel{
    .rows = {{257, 4096}, {130, 5120, 0, true}, {9, 14336, 8}, {67, 999, 1}},
    .vocabularies = {{300, 1}, {40, 32000}, {9, 50257, 0, true}, {4, 128256}, {3, 262144, 0, true}},
    .runs = {20011, std::int64_t{1} << 20},
    .products = {{256, 384, 512}, {160, 136, 1000}, {64, 128, 2048, 8}},
    .heads = {{700, 32, 128, 1024}}};

/// All operators but attention, whose backward has an execution that does not repeat.
std::vector<NamedCheck> checks(const Shapes& shapes) {
  std::vector<NamedCheck> all;
  const auto add = [&](const std::string& name, std::function<void(OpRunner&)> run) {
    all.push_back({name, std::move(run)});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string suffix = " " + std::string(name_of(dtype));
    for (const RowsCase& c : shapes.rows) {
      add("residual add" + suffix, [=](OpRunner& r) { check_residual_add(r, dtype, c); });
      add("swiglu" + suffix, [=](OpRunner& r) { check_swiglu(r, dtype, c); });
      add("embedding" + suffix, [=](OpRunner& r) { check_embedding(r, dtype, c); });
      for (const bool residual : {false, true}) {
        add("rmsnorm" + suffix, [=](OpRunner& r) {
          check_rmsnorm_forward(r, dtype, c, residual);
          check_rmsnorm_backward(r, dtype, c, residual);
        });
      }
    }
    for (const RowsCase& c : shapes.vocabularies) {
      for (const bool gradient : {false, true}) {
        add("cross entropy" + suffix,
            [=](OpRunner& r) { check_cross_entropy(r, dtype, c, gradient); });
      }
    }
    for (const RopeCase& c : shapes.heads) {
      add("rope" + suffix, [=](OpRunner& r) { check_rope(r, dtype, c); });
    }
    for (const std::int64_t n : shapes.runs) {
      add("squared norm" + suffix, [=](OpRunner& r) { check_squared_norm(r, dtype, n); });
      add("fill" + suffix, [=](OpRunner& r) { check_fill(r, dtype, n); });
      add("cast squared norm" + suffix,
          [=](OpRunner& r) { check_cast_squared_norm(r, DType::kF32, dtype, n); });
      for (const DType other : {DType::kF32, DType::kBF16}) {
        add("cast" + suffix, [=](OpRunner& r) { check_cast(r, dtype, other, n); });
        for (const DType grad : {DType::kF32, DType::kBF16}) {
          add("adamw" + suffix, [=](OpRunner& r) { check_adamw(r, {dtype, other, grad, n}); });
        }
      }
    }
    for (const MatmulCase& c : shapes.products) {
      for (const auto layout : {MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN}) {
        add("matmul" + suffix, [=](OpRunner& r) {
          check_matmul(r, dtype, dtype, layout, MatmulUpdate::kOverwrite, c);
          check_matmul(r, dtype, DType::kF32, layout, MatmulUpdate::kAccumulate, c);
        });
      }
    }
  }
  for (const std::int64_t n : shapes.runs) {
    add("accumulate", [=](OpRunner& r) { check_accumulate(r, DType::kF32, n); });
  }
  return all;
}

void run_all(const Shapes& shapes, int runs) {
  if (!cuda_available()) {
    WARN("skipped: this program has no CUDA backend, or there is no device");
    return;
  }
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend, runs);
  for (const NamedCheck& check : checks(shapes)) {
    INFO(check.name);
    check.run(runner);
  }
}

}  // namespace

TEST_CASE("every operator on cuda writes the same bytes in each of a hundred runs", "[cuda]") {
  run_all(kModel, 100);
}

TEST_CASE("every operator on cuda is right at its smallest shapes", "[cuda][small]") {
  run_all(kSmall, 1);
}

TEST_CASE("attention on cuda is right at its smallest shapes", "[cuda][small]") {
  if (!cuda_available()) {
    WARN("skipped: this program has no CUDA backend, or there is no device");
    return;
  }
  for (const AttentionKernels kernels : {AttentionKernels::kAuto, AttentionKernels::kPortable}) {
    Backend backend =
        make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = kernels});
    OpRunner runner(backend);
    for (const std::int64_t head_dim : {64, 128}) {
      const AttentionCase c = causal_case(2, 130, 2, 1, head_dim);
      INFO(c.name << ", head dim " << head_dim);
      check_attention_forward(runner, DType::kBF16, c, DType::kBF16);
      check_attention_backward(runner, DType::kBF16, c, {DType::kBF16, DType::kBF16});
    }
  }
}

}  // namespace strata::test
