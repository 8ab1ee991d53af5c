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
  std::int64_t stride_x = 0;  ///< elements from one row of x to the next
  std::int64_t stride_y = 0;  ///< likewise of y
  bool bias = false;          ///< whether y has one, which products of codes do not add
  Multiplied forward{};       ///< and for the input gradient
  Multiplied weight_gradient{};
  MatmulUpdate into_y = MatmulUpdate::kOverwrite;
  MatmulUpdate into_dx = MatmulUpdate::kOverwrite;
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
  const TensorView x(nullptr, compute, Shape{linear.tokens, linear.in}, linear.stride_x);
  const TensorView w(nullptr, compute, Shape{linear.out, linear.in});
  const TensorView dw(nullptr, accumulator_of(compute), w.shape);
  const TensorView y(nullptr, compute, Shape{linear.tokens, linear.out}, linear.stride_y);
  const ConstTensorView bias =
      linear.bias ? ConstTensorView(nullptr, compute, Shape{linear.out}) : ConstTensorView();
  if (linear.forward.numbers) {
    to.push_back(
        {linear.name + " forward",
         shape_of(Matmul{.a = x, .b = w, .out = y, .update = linear.into_y, .bias = bias})});
    to.push_back(
        {linear.name + " input gradient",
         shape_of(Matmul{
             .a = y, .b = w, .out = x, .layout = MatmulLayout::kNN, .update = linear.into_dx})});
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

std::string text_of(LinearId id) {
  std::string name(name_of(id));
  std::ranges::replace(name, '_', ' ');
  return name;
}

/// Adds the products of the adapters of a linear: h = x A^T of all, and y_i += h_i B_i^T of each.
/// Dropout adds the gradient of x itself.
void add_adapters(std::vector<LlamaMatmul>& to, const Linear& linear, const LlamaSizes& z,
                  bool drops) {
  if (linear.adapters.empty()) return;
  const std::int64_t rank = linear.adapter_rank();
  add_products(to,
               {.name = text_of(linear.id) + " adapter A",
                .tokens = z.cell_tokens,
                .in = linear.in,
                .out = rank,
                .stride_x = linear.in,
                .stride_y = rank,
                .into_dx = drops ? MatmulUpdate::kOverwrite : MatmulUpdate::kAccumulate},
               z.compute);
  for (const Adapter& adapter : linear.adapters) {
    add_products(to,
                 {.name = text_of(linear.id) + " adapter B" + std::to_string(adapter.source),
                  .tokens = z.cell_tokens,
                  .in = adapter.rank,
                  .out = linear.sources.at(adapter.source).rows,
                  .stride_x = rank,
                  .stride_y = linear.out,
                  .into_y = MatmulUpdate::kAccumulate},
                 z.compute);
  }
}

}  // namespace

std::vector<LlamaMatmul> Llama::matmuls(const ModelSpec& spec, const LlamaSizes& z) {
  std::vector<LlamaMatmul> products;
  const bool trained = !spec.adapted();
  for (const Linear& linear : spec.common().linears) {
    const auto some_are = [&](Products of) {
      return std::ranges::any_of(
          spec.kinds, [&](const LayerSpec& kind) { return kind.linear(linear.id).products == of; });
    };
    const bool fp8 = some_are(Products::kFp8);
    const bool fp8_all = some_are(Products::kFp8All);
    const bool plain = some_are(Products::kPlain);
    add_products(
        products,
        {.name = text_of(linear.id),
         .tokens = z.cell_tokens,
         .in = linear.in,
         .out = linear.out,
         .stride_x = linear.in,
         .stride_y = linear.out,
         .bias = linear.has_bias(),
         .forward = {.numbers = plain, .codes = fp8 || fp8_all},
         .weight_gradient = {.numbers = trained && (plain || fp8), .codes = trained && fp8_all}},
        z.compute);
  }
  const auto head = [&](std::string name, std::int64_t tokens) {
    if (tokens == 0) return;
    add_products(products,
                 {.name = std::move(name),
                  .tokens = tokens,
                  .in = spec.width,
                  .out = spec.vocabulary,
                  .stride_x = spec.width,
                  .stride_y = logits_stride(spec.vocabulary),
                  .weight_gradient = {.numbers = spec.trains_projection()}},
                 z.compute);
  };
  head("head", z.head_chunk);
  head("last head", z.cell_tokens % z.head_chunk);
  std::vector<LlamaMatmul> of_adapters;
  for (const LayerSpec& kind : spec.kinds) {
    for (const Linear& linear : kind.linears) {
      add_adapters(of_adapters, linear, z, spec.adapter_dropout > 0);
    }
  }
  for (LlamaMatmul& product : of_adapters) {  // kinds may have the same
    if (std::ranges::find(products, product.shape, &LlamaMatmul::shape) != products.end()) continue;
    products.push_back(std::move(product));
  }
  return products;
}

}  // namespace strata
