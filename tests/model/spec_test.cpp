// What a LLaMA's spec says: widths, names and counts, by hand from the formulas of the model.

#include "strata/model/spec.h"

#include <cstdint>
#include <vector>

#include "strata/base/fields.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

using test::tiny_model;  // C 20, F 27, H 4, K 2, D 6, V 61, 3 layers

}  // namespace

TEST_CASE("a LLaMA's linears have the widths of heads and MLP") {
  const ModelSpec spec = spec_of(tiny_model(false));
  REQUIRE(spec.layers() == 3);
  const LayerSpec& layer = spec.layer(2);
  CHECK(layer.linear(LinearId::kQkv).in == 20);
  CHECK(layer.linear(LinearId::kQkv).out == 24 + 12 + 12);
  CHECK(layer.linear(LinearId::kAttentionOut).in == 24);
  CHECK(layer.linear(LinearId::kAttentionOut).out == 20);
  CHECK(layer.linear(LinearId::kGateUp).in == 20);
  CHECK(layer.linear(LinearId::kGateUp).out == 54);
  CHECK(layer.linear(LinearId::kDown).in == 27);
  CHECK(layer.linear(LinearId::kDown).out == 20);
  CHECK(layer.attention.scale == Approx(0.408248290463863));  // 1 / sqrt(6)
  CHECK(layer.linear(LinearId::kDown).flops() == 2.0 * 27 * 20);
}

TEST_CASE("layers with a window are a kind of their own") {
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kQwen3;
  m.sliding_window = 7;
  CHECK(spec_of(m).kinds.size() == 1);
  CHECK(spec_of(m).common().attention.window == 7);
  m.layer_types = std::vector<std::string>{kWindowLayer, kFullLayer, kWindowLayer};
  const ModelSpec spec = spec_of(m);
  CHECK(spec.kinds.size() == 2);
  CHECK(spec.layer(0).attention.window == 7);
  CHECK(spec.layer(1).attention.window == 0);
  CHECK(spec.layer(2).attention.window == 7);
  CHECK(spec.layer(1).normalises_heads());
  CHECK_NOTHROW(make_layout(spec));
  ConfigProblems problems;
  m.layer_types = std::vector<std::string>{kWindowLayer, kFullLayer};
  m.validate(problems, "model.");
  CHECK_THROWS_WITH(problems.throw_if_any("run"),
                    ContainsSubstring("model.layer_types: must have a kind for each of the 3"));
}

TEST_CASE("a LLaMA has the biases that its config asks for") {
  LlamaConfig m = tiny_model(false);
  const auto biases = [&] {
    const ModelSpec spec = spec_of(m);
    std::vector<LinearId> ids;
    for (const Linear& linear : spec.common().linears) {
      if (linear.has_bias()) ids.push_back(linear.id);
    }
    return ids;
  };
  CHECK(biases().empty());
  m.attention_bias = true;
  CHECK(biases() == std::vector{LinearId::kQkv, LinearId::kAttentionOut});
  m.attention_bias = false;
  m.mlp_bias = true;
  CHECK(biases() == std::vector{LinearId::kGateUp, LinearId::kDown});
  CHECK(spec_of(m).common().linear(LinearId::kGateUp).bias_sources[1].name == "mlp.up_proj.bias");
}

TEST_CASE("a tied head counts once as a parameter and always as a product") {
  const std::int64_t matrices = 3 * (20 * 48 + 24 * 20 + 20 * 54 + 27 * 20);
  const std::int64_t norms = 3 * 2 * 20 + 20;
  for (const bool tied : {false, true}) {
    const ModelSpec spec = spec_of(tiny_model(tied));
    CHECK(spec.tied() == tied);
    CHECK(spec.matmul_parameter_count() == matrices + 61 * 20);
    CHECK(spec.parameter_count() == matrices + norms + (tied ? 1 : 2) * 61 * 20);
  }
}

TEST_CASE("layers of two kinds have blocks and counts of their own") {
  ModelSpec spec = spec_of(tiny_model(false));
  const ModelLayout equal = make_layout(spec);
  LayerSpec other = spec.common();
  for (Linear& linear : other.linears) {
    if (linear.id == LinearId::kDown) linear.sources.front().name = "mlp.w2.weight";
  }
  spec.kinds.push_back(other);
  spec.kind[1] = 1;
  CHECK(spec.layer(1).linear(LinearId::kDown).sources.front().name == "mlp.w2.weight");
  CHECK(spec.layer(2).linear(LinearId::kDown).sources.front().name == "mlp.down_proj.weight");
  const ModelLayout layout = make_layout(spec);
  const auto down = [&](int layer) {
    return layout.blocks[layout.block_of_layer(layer)].segments.back().sources.front().name;
  };
  CHECK(down(0) == "model.layers.0.mlp.down_proj.weight");
  CHECK(down(1) == "model.layers.1.mlp.w2.weight");
  CHECK(layout.blocks[layout.block_of_layer(1)].elements ==
        equal.blocks[equal.block_of_layer(1)].elements);
}

TEST_CASE("kinds may differ in whether they rotate, and by which angles") {
  ModelSpec spec = spec_of(tiny_model(false));
  spec.kinds.push_back(spec.common());
  spec.kinds.back().attention.rotates = false;
  spec.kind[1] = 1;
  CHECK_NOTHROW(make_layout(spec));
  spec.kinds.back().attention.rotates = true;
  spec.kinds.back().attention.rope.theta = 7;
  spec.kinds.back().attention.rope.scaling = RopeScaling{.rope_type = RopeType::kLinear};
  CHECK_NOTHROW(make_layout(spec));
}

TEST_CASE("kinds that attend otherwise or have other widths are refused") {
  const ModelSpec spec = spec_of(tiny_model(false));
  const auto refused = [&](const auto& change) {
    ModelSpec changed = spec;
    changed.kinds.push_back(changed.common());
    change(changed.kinds.back());
    CHECK_THROWS_WITH(make_layout(changed),
                      "kinds of layers differ in widths or in how they attend");
  };
  refused([](LayerSpec& layer) { layer.attention.scale *= 2; });
  refused([](LayerSpec& layer) { layer.attention.rope.width -= 2; });
  refused([](LayerSpec& layer) { layer.attention.rope.pairs = RopePairs::kNeighbours; });
  refused([](LayerSpec& layer) { layer.linears.front().out += 6; });
  refused([](LayerSpec& layer) { layer.linears.front().bias_sources = {{"bias", 48}}; });
  refused([](LayerSpec& layer) { layer.norms.push_back({NormId::kQuery, 6, "norm"}); });
  refused([](LayerSpec& layer) { layer.norms.pop_back(); });
  refused([](LayerSpec& layer) { layer.activation = Activation::kGelu; });
}

TEST_CASE("a linear with a bias and a multiplier is refused") {
  ModelSpec spec = spec_of(tiny_model(false));
  spec.kinds.front().linears.front().bias_sources = {{"bias", 48}};
  spec.kinds.front().linears.front().multiplier = 2;
  CHECK_THROWS_WITH(make_layout(spec), "a linear has a bias and a multiplier");
}

TEST_CASE("a layer without a norm has no segment of it") {
  ModelSpec spec = spec_of(tiny_model(false));
  spec.kinds.front().norms.pop_back();
  const ModelLayout layout = make_layout(spec);
  CHECK(layout.blocks[layout.block_of_layer(0)].segments.size() == 5);
}

TEST_CASE("a linear or a norm that a layer does not have is refused by name") {
  LayerSpec layer = spec_of(tiny_model(false)).common();
  layer.linears.pop_back();
  layer.norms.pop_back();
  CHECK_THROWS_WITH(layer.linear(LinearId::kDown), "the layer has no linear down");
  CHECK_THROWS_WITH(layer.norm(NormId::kMlp), "the layer has no norm mlp_norm");
}

}  // namespace strata
