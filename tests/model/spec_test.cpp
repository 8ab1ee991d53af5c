// What a LLaMA's spec says: widths, names and counts, by hand from the formulas of the model.

#include "strata/model/spec.h"

#include <cstdint>
#include <vector>

#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

LlamaConfig model(bool tied) {
  LlamaConfig m = test::tiny_model();  // C 20, F 27, H 4, K 2, D 6, V 61, 3 layers
  m.tie_word_embeddings = tied;
  return m;
}

}  // namespace

TEST_CASE("a LLaMA's linears have the widths of heads and MLP") {
  const ModelSpec spec = spec_of(model(false));
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

TEST_CASE("a Phi-3 has a LLaMA's linears, of fused tensors") {
  LlamaConfig m = model(false);
  const ModelSpec llama = spec_of(m);
  m.model_type = ModelType::kPhi3;
  const ModelSpec phi3 = spec_of(m);
  for (const Linear& linear : llama.common().linears) {
    const Linear& fused = phi3.common().linear(linear.id);
    CHECK(fused.in == linear.in);
    CHECK(fused.out == linear.out);
    REQUIRE(fused.sources.size() == 1);
    CHECK(fused.sources.front().rows == linear.out);
  }
  const ModelLayout layout = make_layout(phi3);
  const Block& block = layout.blocks[layout.block_of_layer(1)];
  CHECK(block.segments[1].sources.front().name == "model.layers.1.self_attn.qkv_proj.weight");
  CHECK(block.segments[4].sources.front().name == "model.layers.1.mlp.gate_up_proj.weight");
  CHECK(block.elements == make_layout(llama).blocks[BlockId(2)].elements);
  CHECK(phi3.parameter_count() == llama.parameter_count());
}

TEST_CASE("a Qwen2 has biases on q, k and v, after all weights of the block") {
  LlamaConfig m = model(false);
  const ModelSpec llama = spec_of(m);
  m.model_type = ModelType::kQwen2;
  const ModelSpec qwen2 = spec_of(m);
  CHECK(qwen2.common().linear(LinearId::kQkv).bias_elements() == 24 + 12 + 12);
  for (const LinearId id : {LinearId::kAttentionOut, LinearId::kGateUp, LinearId::kDown}) {
    CHECK(!qwen2.common().linear(id).has_bias());
  }
  CHECK(qwen2.parameter_count() == llama.parameter_count() + 3 * 48);
  CHECK(qwen2.matmul_parameter_count() == llama.matmul_parameter_count());

  const ModelLayout layout = make_layout(qwen2);
  const Block& block = layout.blocks[layout.block_of_layer(1)];
  const ModelLayout layout_without = make_layout(llama);
  const Block& without = layout_without.blocks[BlockId(2)];
  REQUIRE(block.segments.size() == without.segments.size() + 1);
  for (std::size_t i = 0; i < without.segments.size(); ++i) {
    CHECK(block.segments[i].name == without.segments[i].name);
    CHECK(block.segments[i].offset == without.segments[i].offset);
  }
  const Segment& bias = block.segments.back();
  CHECK(bias.name == "layers.1.qkv_bias");
  CHECK(bias.elements() == 48);
  CHECK(!bias.decay);
  CHECK(bias.initializer == Initializer::kZeros);
  REQUIRE(bias.sources.size() == 3);
  CHECK(bias.sources[0].name == "model.layers.1.self_attn.q_proj.bias");
  CHECK(bias.sources[2].name == "model.layers.1.self_attn.v_proj.bias");
  CHECK(bias.shape_of(bias.sources[0]) == std::vector<std::int64_t>{24});
  CHECK(block.segments.front().shape_of(block.segments.front().sources[0]) ==
        std::vector<std::int64_t>{20});
  CHECK(block.segments[1].shape_of(block.segments[1].sources[1]) ==
        std::vector<std::int64_t>{12, 20});
}

TEST_CASE("a Qwen3 has norms of heads, after all other weights of the block") {
  LlamaConfig m = model(false);
  const ModelSpec llama = spec_of(m);
  m.model_type = ModelType::kQwen3;
  const ModelSpec qwen3 = spec_of(m);
  CHECK(qwen3.common().normalises_heads());
  CHECK(!llama.common().normalises_heads());
  CHECK(qwen3.common().norm(NormId::kKey).width == 6);
  CHECK(qwen3.parameter_count() == llama.parameter_count() + 3 * 2 * 6);
  const ModelLayout layout = make_layout(qwen3);
  const Block& block = layout.blocks[layout.block_of_layer(1)];
  REQUIRE(block.segments.size() == 8);
  CHECK(block.segments[6].name == "layers.1.query_norm");
  CHECK(block.segments[6].sources[0].name == "model.layers.1.self_attn.q_norm.weight");
  CHECK(block.segments[7].name == "layers.1.key_norm");
  CHECK(!block.segments[7].decay);
  CHECK(block.segments[7].initializer == Initializer::kOnes);
  m.attention_bias = true;
  CHECK(spec_of(m).common().linear(LinearId::kAttentionOut).bias_elements() == 20);
}

TEST_CASE("a Granite multiplies embeddings, branches, scores and logits") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kGranite;
  m.embedding_multiplier = 12;
  m.residual_multiplier = 0.25;
  m.logits_scaling = 8;
  const ModelSpec by_size = spec_of(m);
  CHECK(by_size.common().attention.scale == spec_of(model(false)).common().attention.scale);
  m.attention_multiplier = 0.5;
  const ModelSpec spec = spec_of(m);
  CHECK(spec.common().attention.scale == 0.5);
  CHECK(spec.embedding_scale == 12);
  CHECK(spec.logits_scale == 0.125);
  CHECK(spec.common().linear(LinearId::kAttentionOut).multiplier == 0.25);
  CHECK(spec.common().linear(LinearId::kDown).multiplier == 0.25);
  CHECK(spec.common().linear(LinearId::kQkv).multiplier == 1);
  CHECK(spec.common().linear(LinearId::kGateUp).multiplier == 1);
}

TEST_CASE("an OLMo 2 has norms of what its branches give, and of all of q and k") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kOlmo2;
  const ModelSpec spec = spec_of(m);
  const LayerSpec& layer = spec.common();
  CHECK(!layer.has(NormId::kAttention));
  CHECK(!layer.has(NormId::kMlp));
  CHECK(layer.norm(NormId::kQuery).width == 24);
  CHECK(layer.norm(NormId::kKey).width == 12);
  CHECK(layer.norm(NormId::kMlpOut).width == 20);
  const ModelLayout layout = make_layout(spec);
  const Block& block = layout.blocks[layout.block_of_layer(1)];
  REQUIRE(block.segments.size() == 8);
  CHECK(block.segments[0].name == "layers.1.qkv");
  CHECK(block.segments[6].name == "layers.1.attention_out_norm");
  CHECK(block.segments[6].sources[0].name == "model.layers.1.post_attention_layernorm.weight");
  CHECK(block.segments[7].name == "layers.1.mlp_out_norm");
}

TEST_CASE("a Seed-OSS has biases of q, k and v apart from that of the projection") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kSeedOss;
  m.attention_bias = true;
  CHECK(spec_of(m).common().linear(LinearId::kQkv).has_bias());
  CHECK(!spec_of(m).common().linear(LinearId::kAttentionOut).has_bias());
  m.attention_bias = false;
  m.attention_out_bias = true;
  CHECK(!spec_of(m).common().linear(LinearId::kQkv).has_bias());
  CHECK(spec_of(m).common().linear(LinearId::kAttentionOut).has_bias());
}

TEST_CASE("a Gemma's norms begin as 0, to which 1 is added") {
  LlamaConfig m = model(true);
  m.model_type = ModelType::kGemma;
  const ModelSpec spec = spec_of(m);
  CHECK(spec.norm_offset == 1);
  CHECK(spec.embedding_scale == 4.472136020660400390625);  // sqrt(20) in f32
  CHECK(spec.common().activation == Activation::kGeluTanh);
  const ModelLayout layout = make_layout(spec);
  const Segment& norm = layout.blocks[layout.block_of_layer(0)].segments[0];
  CHECK(norm.name == "layers.0.attention_norm");
  CHECK(norm.initializer == Initializer::kZeros);
  CHECK(!norm.decay);
  CHECK(norm.shape_of(norm.sources[0]) == std::vector<std::int64_t>{20});
}

TEST_CASE(
    "a GLM-4 has norms around its branches, pairs of neighbours and one tensor of gate and up") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kGlm4;
  m.attention_bias = true;
  const ModelSpec spec = spec_of(m);
  const LayerSpec& layer = spec.common();
  CHECK(layer.attention.rope.pairs == RopePairs::kNeighbours);
  CHECK(layer.linear(LinearId::kQkv).bias_elements() == 24 + 12 + 12);
  CHECK(!layer.linear(LinearId::kAttentionOut).has_bias());
  REQUIRE(layer.linear(LinearId::kGateUp).sources.size() == 1);
  CHECK(layer.linear(LinearId::kGateUp).sources.front().rows == 54);
  const ModelLayout layout = make_layout(spec);
  const Block& block = layout.blocks[layout.block_of_layer(1)];
  REQUIRE(block.segments.size() == 9);
  const auto source = [&](std::size_t segment) { return block.segments[segment].sources[0].name; };
  CHECK(source(0) == "model.layers.1.input_layernorm.weight");
  CHECK(source(3) == "model.layers.1.post_attention_layernorm.weight");
  CHECK(source(4) == "model.layers.1.mlp.gate_up_proj.weight");
  CHECK(source(6) == "model.layers.1.post_self_attn_layernorm.weight");
  CHECK(source(7) == "model.layers.1.post_mlp_layernorm.weight");
  CHECK(source(8) == "model.layers.1.self_attn.q_proj.bias");
}

TEST_CASE("layers of a SmolLM3 rotate or not, and are equal otherwise") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kSmolLm3;
  m.no_rope_layers = std::vector{0.0, 1.0, 0.0};
  const ModelSpec spec = spec_of(m);
  CHECK_FALSE(spec.layer(0).attention.rotates);
  CHECK(spec.layer(1).attention.rotates);
  CHECK_FALSE(spec.layer(2).attention.rotates);
  CHECK(spec.kinds.size() == 2);
  CHECK_NOTHROW(make_layout(spec));
  m.no_rope_layers = std::vector(3, 1.0);
  CHECK(spec_of(m).kinds.size() == 1);
}

TEST_CASE("layers with a window are a kind of their own") {
  LlamaConfig m = model(false);
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

TEST_CASE("a Phi-3 rotates the part of a head that its config says") {
  LlamaConfig m = model(false);
  m.model_type = ModelType::kPhi3;
  m.partial_rotary_factor = 0.75;  // of 6, with the fraction cut off
  CHECK(spec_of(m).common().attention.rope.width == 4);
  CHECK(spec_of(m).common().attention.head_size == 6);
}

TEST_CASE("a LLaMA has the biases that its config asks for") {
  LlamaConfig m = model(false);
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
    const ModelSpec spec = spec_of(model(tied));
    CHECK(spec.tied() == tied);
    CHECK(spec.matmul_parameter_count() == matrices + 61 * 20);
    CHECK(spec.parameter_count() == matrices + norms + (tied ? 1 : 2) * 61 * 20);
  }
}

TEST_CASE("layers of two kinds have blocks and counts of their own") {
  ModelSpec spec = spec_of(model(false));
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
  ModelSpec spec = spec_of(model(false));
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
  const ModelSpec spec = spec_of(model(false));
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
  ModelSpec spec = spec_of(model(false));
  spec.kinds.front().linears.front().bias_sources = {{"bias", 48}};
  spec.kinds.front().linears.front().multiplier = 2;
  CHECK_THROWS_WITH(make_layout(spec), "a linear has a bias and a multiplier");
}

TEST_CASE("a layer without a norm has no segment of it") {
  ModelSpec spec = spec_of(model(false));
  spec.kinds.front().norms.pop_back();
  const ModelLayout layout = make_layout(spec);
  CHECK(layout.blocks[layout.block_of_layer(0)].segments.size() == 5);
}

TEST_CASE("a linear or a norm that a layer does not have is refused by name") {
  LayerSpec layer = spec_of(model(false)).common();
  layer.linears.pop_back();
  layer.norms.pop_back();
  CHECK_THROWS_WITH(layer.linear(LinearId::kDown), "the layer has no linear down");
  CHECK_THROWS_WITH(layer.norm(NormId::kMlp), "the layer has no norm mlp_norm");
}

}  // namespace strata
