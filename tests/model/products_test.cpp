// Tests which linears of a spec multiply codes when a run says so, and the products that follow.

#include "strata/model/products.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/llama.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

using Names = std::vector<std::string>;

ModelSpec tiny(Products products, const Names& plain) {
  return with_products(spec_of(test::tiny_model()), products, plain);
}

/// Returns the products of a linear in each layer.
std::vector<Products> products_of(const ModelSpec& spec, LinearId id) {
  std::vector<Products> products;
  for (int i = 0; i < spec.layers(); ++i) {
    products.push_back(spec.layer(i).linear(id).products);
  }
  return products;
}

constexpr Products kPlain = Products::kPlain;
constexpr Products kFp8 = Products::kFp8;

/// Returns the names of the products whose name begins so, in order.
Names products_named(const ModelSpec& spec, const std::string& begin) {
  const LlamaSizes sizes{
      .compute = DType::kBF16, .row_tokens = 8, .cell_tokens = 16, .head_chunk = 16};
  Names names;
  for (const LlamaMatmul& product : Llama::matmuls(spec, sizes)) {
    if (product.name.starts_with(begin)) names.push_back(product.name);
  }
  return names;
}

}  // namespace

TEST_CASE("products of all linears and layers multiply codes but for those that are named") {
  const ModelSpec all = tiny(kFp8, {});
  CHECK(all.kinds.size() == 1);
  const ModelSpec some = tiny(kFp8, {"down", "layers.1"});
  CHECK(some.kinds.size() == 2);
  for (const EnumName<LinearId>& row : kLinearNames) {
    CHECK(products_of(all, row.value) == std::vector<Products>(3, kFp8));
    const Products others = row.value == LinearId::kDown ? kPlain : kFp8;
    CHECK(products_of(some, row.value) == std::vector<Products>{others, kPlain, others});
  }
  CHECK_NOTHROW(make_layout(some));
  CHECK(some.parameter_count() == spec_of(test::tiny_model()).parameter_count());
  CHECK(tiny(kPlain, {"down"}).kinds.size() == 1);
}

TEST_CASE("kinds that differ already stay apart, and none is left without a layer") {
  LlamaConfig m = test::tiny_model();
  m.model_type = ModelType::kQwen3;
  m.sliding_window = 7;
  m.layer_types = Names{kWindowLayer, kFullLayer, kWindowLayer};
  const ModelSpec spec = spec_of(m);
  const ModelSpec ends = with_products(spec, kFp8, Names{"layers.0"});
  CHECK(ends.kinds.size() == 3);
  CHECK(ends.layer(0).attention.window == 7);
  CHECK(ends.layer(1).attention.window == 0);
  CHECK(ends.layer(2).attention.window == 7);
  CHECK(products_of(ends, LinearId::kQkv) == std::vector<Products>{kPlain, kFp8, kFp8});
  CHECK(with_products(spec, kFp8, Names{"layers.1"}).kinds.size() == 2);
}

TEST_CASE("names are those of linears and of layers that there are") {
  const Names known{"qkv", "attention_out", "gate_up", "down", "layers.0", "layers.2"};
  CHECK(unknown_products(known, 3) == nullptr);
  for (const std::string name :
       {"", "mlp", "layers", "layers.", "layers.3", "layers.-1", "layers.+1", "layers.00",
        "layers.1 ", "layers.18446744073709551617"}) {
    INFO(name);
    const Names names{"down", name};
    CHECK(unknown_products(names, 3) == &names[1]);
    CHECK_THROWS_AS(tiny(kFp8, names), std::invalid_argument);
  }
}

TEST_CASE("the products to tune are those of all kinds of layers, each once") {
  const Names bf16{"down forward", "down input gradient", "down weight gradient"};
  CHECK(products_named(tiny(kPlain, {}), "down") == bf16);
  CHECK(products_named(tiny(kFp8, {"down"}), "down") == bf16);
  CHECK(products_named(tiny(kFp8, {}), "down") ==
        Names{"down weight gradient", "down forward in e4m3", "down input gradient in e4m3"});
  const Names all{"down forward in e4m3", "down input gradient in e4m3",
                  "down weight gradient in e4m3"};
  CHECK(products_named(tiny(Products::kFp8All, {}), "down") == all);
  Names both = bf16;
  both.insert(both.end(), all.begin(), all.end());
  CHECK(products_named(tiny(Products::kFp8All, {"layers.0"}), "down") == both);
  CHECK(products_named(tiny(Products::kFp8All, {}), "head").size() == 3);
}

TEST_CASE("where adapters are trained no product makes gradients of weights from codes") {
  ModelSpec spec = spec_of(test::tiny_model());
  add_adapters(spec, {.rank = 3, .targets = {"down_proj"}});
  spec = with_products(std::move(spec), Products::kFp8All, {});
  CHECK(products_of(spec, LinearId::kDown) == std::vector<Products>(3, kFp8));
  CHECK(products_named(spec, "down") ==
        Names{"down forward in e4m3", "down input gradient in e4m3", "down adapter A forward",
              "down adapter A input gradient", "down adapter A weight gradient",
              "down adapter B0 forward", "down adapter B0 input gradient",
              "down adapter B0 weight gradient"});
}

TEST_CASE("products of codes have the shapes of their operands") {
  const LlamaSizes sizes{
      .compute = DType::kBF16, .row_tokens = 8, .cell_tokens = 16, .head_chunk = 16};
  for (const LlamaMatmul& product : Llama::matmuls(tiny(Products::kFp8All, {}), sizes)) {
    const MatmulShape& s = product.shape;
    if (!product.name.starts_with("gate up")) continue;  // in 20, out 54
    INFO(product.name);
    CHECK(s.in == DType::kE4M3);
    CHECK(s.layout == MatmulLayout::kNT);
    const bool weight = product.name == "gate up weight gradient in e4m3";
    CHECK(s.out == (weight ? DType::kF32 : DType::kBF16));
    CHECK((s.update == MatmulUpdate::kAccumulate) == weight);
    const std::vector<std::int64_t> extents{s.m, s.n, s.k};
    if (weight) {
      CHECK(extents == std::vector<std::int64_t>{54, 20, 16});
    } else if (product.name == "gate up forward in e4m3") {
      CHECK(extents == std::vector<std::int64_t>{16, 54, 20});
    } else {
      CHECK(extents == std::vector<std::int64_t>{16, 20, 54});
    }
    CHECK(s.stride_a == s.k);
    CHECK(s.stride_b == s.k);
    CHECK(s.stride_out == s.n);
  }
}

}  // namespace strata
