// Lists the shapes of the matrix products that a model runs, for tuning before the first step and
// for benchmark programs.

#include <algorithm>
#include <string>
#include <utility>

#include "strata/model/llama.h"

namespace strata {
namespace {

/// A linear layer y = x W^T on so many tokens, which takes three products; W is [out, in].
struct Products {
  std::string name;
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride_y = 0;  ///< elements from one row of y to the next
  bool bias = false;          ///< whether y has one
};

void add_products(std::vector<LlamaMatmul>& to, const Products& linear, DType compute) {
  const TensorView x(nullptr, compute, Shape{linear.tokens, linear.in});
  const TensorView w(nullptr, compute, Shape{linear.out, linear.in});
  const TensorView dw(nullptr, accumulator_of(compute), w.shape);
  const TensorView y(nullptr, compute, Shape{linear.tokens, linear.out}, linear.stride_y);
  const ConstTensorView bias =
      linear.bias ? ConstTensorView(nullptr, compute, Shape{linear.out}) : ConstTensorView();
  to.push_back(
      {linear.name + " forward", shape_of(Matmul{.a = x, .b = w, .out = y, .bias = bias})});
  to.push_back({linear.name + " input gradient",
                shape_of(Matmul{.a = y, .b = w, .out = x, .layout = MatmulLayout::kNN})});
  to.push_back(
      {linear.name + " weight gradient", shape_of(Matmul{.a = y,
                                                         .b = x,
                                                         .out = dw,
                                                         .layout = MatmulLayout::kTN,
                                                         .update = MatmulUpdate::kAccumulate})});
}

}  // namespace

std::vector<LlamaMatmul> Llama::matmuls(const ModelSpec& spec, const LlamaSizes& z) {
  std::vector<LlamaMatmul> products;
  for (const Linear& linear : spec.common().linears) {
    std::string name(name_of(linear.id));
    std::ranges::replace(name, '_', ' ');
    add_products(products,
                 {name, z.cell_tokens, linear.in, linear.out, linear.out, linear.has_bias()},
                 z.compute);
  }
  const auto head = [&](std::string name, std::int64_t tokens) {
    if (tokens == 0) return;
    add_products(
        products,
        {std::move(name), tokens, spec.width, spec.vocabulary, logits_stride(spec.vocabulary)},
        z.compute);
  };
  head("head", z.head_chunk);
  head("last head", z.cell_tokens % z.head_chunk);
  return products;
}

}  // namespace strata
