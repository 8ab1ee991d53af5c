// Tests that plans of matrix products survive their line of text and that changed lines are
// refused.

#include "strata/ops/matmul_plan.h"

#include <string>
#include <vector>

#include "strata/ops/backend.h"
#include "support/catch.h"

namespace strata::test {
namespace {

const MatmulPlan kPlan{.shape = {.m = 7,
                                 .n = 12,
                                 .k = 3,
                                 .stride_a = 8,
                                 .stride_b = 16,
                                 .stride_out = 24,
                                 .layout = MatmulLayout::kTN,
                                 .update = MatmulUpdate::kAccumulate,
                                 .in = DType::kBF16,
                                 .out = DType::kF32},
                       .algorithm = "00ff",
                       .measured_us = 12.5};

}  // namespace

TEST_CASE("a plan reads back from its line") {
  for (const auto layout : {MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN}) {
    for (const auto update : {MatmulUpdate::kOverwrite, MatmulUpdate::kAccumulate}) {
      for (const bool bias : {false, true}) {
        MatmulPlan plan = kPlan;
        plan.shape.layout = layout;
        plan.shape.update = update;
        plan.shape.bias = bias;
        const MatmulPlan read = parse_matmul_plan(to_line(plan));
        CHECK(read.shape == plan.shape);
        CHECK(read.algorithm == "00ff");
        CHECK(read.measured_us == 12.5);
      }
    }
  }
}

TEST_CASE("a plan of a product in e4m3 reads back from its line") {
  MatmulPlan plan = kPlan;
  plan.shape.layout = MatmulLayout::kNT;
  plan.shape.in = DType::kE4M3;
  CHECK(to_line(plan).starts_with("NT e4m3 f32 accumulate m 7 "));
  CHECK(parse_matmul_plan(to_line(plan)).shape == plan.shape);
}

TEST_CASE("a plan's line says what a person wants to know") {
  CHECK(to_line(kPlan).starts_with(
      "TN bf16 f32 accumulate m 7 n 12 k 3 strides 8 16 24 us 12.5 algorithm 00ff check "));
  MatmulPlan biased = kPlan;
  biased.shape.bias = true;
  CHECK(to_line(biased).find(" 24 bias us 12.5 ") != std::string::npos);
}

TEST_CASE("a plan's line that was changed is refused and quoted") {
  const std::string line = to_line(kPlan);
  std::vector<std::string> wrong{"", "check", line.substr(0, line.size() - 1), line + " more"};
  for (std::size_t i = 0; i < line.size(); ++i) {
    wrong.push_back(line);
    wrong.back()[i] = line[i] == '1' ? '2' : '1';
  }
  for (const std::string& text : wrong) {
    INFO(text);
    REQUIRE_THROWS_WITH(parse_matmul_plan(text), ContainsSubstring("\"" + text + "\""));
  }
}

TEST_CASE("the shape of a product is that of its views, without strides of single rows") {
  const ConstTensorView a(nullptr, DType::kBF16, Shape{1, 5}, 40);
  const ConstTensorView b(nullptr, DType::kBF16, Shape{9, 5}, 6);
  const TensorView out(nullptr, DType::kF32, Shape{1, 9}, 70);
  const MatmulShape shape = shape_of(Matmul{.a = a, .b = b, .out = out});
  CHECK(shape == MatmulShape{.m = 1,
                             .n = 9,
                             .k = 5,
                             .stride_a = 5,
                             .stride_b = 6,
                             .stride_out = 9,
                             .layout = MatmulLayout::kNT,
                             .update = MatmulUpdate::kOverwrite,
                             .in = DType::kBF16,
                             .out = DType::kF32});
  CHECK(shape.flops() == 90);
  MatmulShape biased = shape;
  biased.bias = true;
  biased.out = DType::kBF16;
  CHECK(biased == shape_of(Matmul{.a = a,
                                  .b = b,
                                  .out = {nullptr, DType::kBF16, Shape{1, 9}},
                                  .bias = {nullptr, DType::kBF16, Shape{9}}}));
}

TEST_CASE("the cpu backend has no choice of matrix products") {
  const Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 1});
  CHECK(backend.kernels->matmul_tuner() == nullptr);
}

}  // namespace strata::test
