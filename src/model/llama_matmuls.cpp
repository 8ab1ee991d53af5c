// The shapes of the matrix products that the lists run, for tuning before the first step and for
// benchmark programs.

#include <string>
#include <utility>

#include "strata/model/llama.h"

namespace strata {
namespace {

/// A linear layer y = x W^T on so many tokens, which takes three products; W is [out, in].
struct Linear {
  std::string name;
  std::int64_t tokens = 0, in = 0, out = 0;
  std::int64_t stride_y = 0;  ///< elements from one row of y to the next
};

void add_products(std::vector<LlamaMatmul>& to, const Linear& linear, DType compute) {
  const TensorView x(nullptr, compute, Shape{linear.tokens, linear.in});
  const TensorView w(nullptr, compute, Shape{linear.out, linear.in});
  const TensorView dw(nullptr, accumulator_of(compute), w.shape);
  const TensorView y(nullptr, compute, Shape{linear.tokens, linear.out}, linear.stride_y);
  to.push_back({linear.name + " forward", shape_of(Matmul{.a = x, .b = w, .out = y})});
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

std::vector<LlamaMatmul> Llama::matmuls(const LlamaConfig& c, const LlamaSizes& z) {
  std::vector<LlamaMatmul> products;
  const auto layer = [&](std::string name, std::int64_t in, std::int64_t out) {
    add_products(products, {std::move(name), z.cell_tokens, in, out, out}, z.compute);
  };
  const auto head = [&](std::string name, std::int64_t tokens) {
    if (tokens == 0) return;
    add_products(products, {std::move(name), tokens, c.hidden_size, c.vocab_size, logits_stride(c)},
                 z.compute);
  };
  layer("qkv", c.hidden_size, c.query_width() + 2 * c.kv_width());
  layer("attention out", c.query_width(), c.hidden_size);
  layer("gate up", c.hidden_size, 2 * c.intermediate_size);
  layer("down", c.intermediate_size, c.hidden_size);
  head("head", z.head_chunk);
  head("last head", z.cell_tokens % z.head_chunk);
  return products;
}

}  // namespace strata
