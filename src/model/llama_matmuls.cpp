// Lists the shapes of the matrix products that a model runs, for tuning before the first step and
// for benchmark programs.

#include <algorithm>
#include <string>
#include <utility>

#include "strata/model/llama.h"

namespace strata {
namespace {

/// What products of one purpose multiply: in layers of different kinds it may be both.
struct Multiplied {
  bool numbers = true;
  bool codes = false;
};

/// A linear layer y = x W^T on so many tokens, which takes three products; W is [out, in].
struct LinearProducts {
  std::string name;
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride_y = 0;            ///< elements from one row of y to the next
  bool bias = false;                    ///< whether y has one, which products of codes do not add
  Multiplied forward, weight_gradient;  ///< the input gradient is as forward
};

/// A product of codes, a [m, k] and b [n, k].
LlamaMatmul codes_product(std::string name, const Shape& a, const Shape& b, DType out,
                          MatmulUpdate update = MatmulUpdate::kOverwrite) {
  return {std::move(name), shape_of(Matmul{.a = TensorView(nullptr, DType::kE4M3, a),
                                           .b = TensorView(nullptr, DType::kE4M3, b),
                                           .out = TensorView(nullptr, out, Shape{a[0], b[0]}),
                                           .update = update})};
}

void add_codes_products(std::vector<LlamaMatmul>& to, const LinearProducts& linear, DType compute) {
  const std::int64_t n = linear.tokens;
  const std::int64_t in = linear.in;
  const std::int64_t out = linear.out;
  if (linear.forward.codes) {
    to.push_back(codes_product(linear.name + " forward in e4m3", {n, in}, {out, in}, compute));
    to.push_back(
        codes_product(linear.name + " input gradient in e4m3", {n, out}, {in, out}, compute));
  }
  if (linear.weight_gradient.codes) {
    to.push_back(codes_product(linear.name + " weight gradient in e4m3", {out, n}, {in, n},
                               accumulator_of(compute), MatmulUpdate::kAccumulate));
  }
}

void add_products(std::vector<LlamaMatmul>& to, const LinearProducts& linear, DType compute) {
  const TensorView x(nullptr, compute, Shape{linear.tokens, linear.in});
  const TensorView w(nullptr, compute, Shape{linear.out, linear.in});
  const TensorView dw(nullptr, accumulator_of(compute), w.shape);
  const TensorView y(nullptr, compute, Shape{linear.tokens, linear.out}, linear.stride_y);
  const ConstTensorView bias =
      linear.bias ? ConstTensorView(nullptr, compute, Shape{linear.out}) : ConstTensorView();
  if (linear.forward.numbers) {
    to.push_back(
        {linear.name + " forward", shape_of(Matmul{.a = x, .b = w, .out = y, .bias = bias})});
    to.push_back({linear.name + " input gradient",
                  shape_of(Matmul{.a = y, .b = w, .out = x, .layout = MatmulLayout::kNN})});
  }
  if (linear.weight_gradient.numbers) {
    to.push_back(
        {linear.name + " weight gradient", shape_of(Matmul{.a = y,
                                                           .b = x,
                                                           .out = dw,
                                                           .layout = MatmulLayout::kTN,
                                                           .update = MatmulUpdate::kAccumulate})});
  }
  add_codes_products(to, linear, compute);
}

}  // namespace

std::vector<LlamaMatmul> Llama::matmuls(const ModelSpec& spec, const LlamaSizes& z) {
  std::vector<LlamaMatmul> products;
  for (const Linear& linear : spec.common().linears) {
    std::string name(name_of(linear.id));
    std::ranges::replace(name, '_', ' ');
    const auto some_are = [&](Products of) {
      return std::ranges::any_of(
          spec.kinds, [&](const LayerSpec& kind) { return kind.linear(linear.id).products == of; });
    };
    const bool fp8 = some_are(Products::kFp8);
    const bool fp8_all = some_are(Products::kFp8All);
    const bool plain = some_are(Products::kPlain);
    add_products(products,
                 {.name = name,
                  .tokens = z.cell_tokens,
                  .in = linear.in,
                  .out = linear.out,
                  .stride_y = linear.out,
                  .bias = linear.has_bias(),
                  .forward = {.numbers = plain, .codes = fp8 || fp8_all},
                  .weight_gradient = {.numbers = plain || fp8, .codes = fp8_all}},
                 z.compute);
  }
  const auto head = [&](std::string name, std::int64_t tokens) {
    if (tokens == 0) return;
    add_products(products,
                 {.name = std::move(name),
                  .tokens = tokens,
                  .in = spec.width,
                  .out = spec.vocabulary,
                  .stride_y = logits_stride(spec.vocabulary),
                  .forward = {},
                  .weight_gradient = {}},
                 z.compute);
  };
  head("head", z.head_chunk);
  head("last head", z.cell_tokens % z.head_chunk);
  return products;
}

}  // namespace strata
