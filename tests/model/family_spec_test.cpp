// What specs of families say that differ from a LLaMA's, by hand from the formulas of the models.

#include "strata/model/spec.h"

#include <cstdint>
#include <vector>

#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

using test::tiny_model;  // C 20, F 27, H 4, K 2, D 6, V 61, 3 layers

}  // namespace

TEST_CASE("a Phi-3 has a LLaMA's linears, of fused tensors") {
  LlamaConfig m = tiny_model(false);
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
  LlamaConfig m = tiny_model(false);
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
  LlamaConfig m = tiny_model(false);
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
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kGranite;
  m.embedding_multiplier = 12;
  m.residual_multiplier = 0.25;
  m.logits_scaling = 8;
  const ModelSpec by_size = spec_of(m);
  CHECK(by_size.common().attention.scale == spec_of(tiny_model(false)).common().attention.scale);
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
  LlamaConfig m = tiny_model(false);
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
  LlamaConfig m = tiny_model(false);
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
  LlamaConfig m = tiny_model(true);
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
  LlamaConfig m = tiny_model(false);
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

TEST_CASE("a Gemma 2 has norms around its branches, caps, and windows in every other layer") {
  LlamaConfig m = tiny_model(true);
  m.model_type = ModelType::kGemma2;
  m.sliding_window = 4;
  m.query_pre_attn_scalar = 16;
  m.attn_logit_softcapping = 50;
  m.final_logit_softcapping = 30;
  const ModelSpec spec = spec_of(m);
  CHECK(spec.logits_cap == 30);
  CHECK(spec.norm_offset == 1);
  for (int layer = 0; layer < 3; ++layer) {
    const LayerSpec& of = spec.layer(layer);
    CHECK(of.attention.window == (layer == 1 ? 0 : 4));
    CHECK(of.attention.scale == 0.25);
    CHECK(of.attention.score_cap == 50);
    CHECK(of.norm(NormId::kMlp).source == "pre_feedforward_layernorm.weight");
    CHECK(of.norm(NormId::kAttentionOut).source == "post_attention_layernorm.weight");
  }
  CHECK(!spec.common().normalises_heads());
  CHECK_NOTHROW(make_layout(spec));
}

TEST_CASE("a Gemma 3 normalises heads, and rotates otherwise in layers with a window") {
  LlamaConfig m = tiny_model(true);
  m.model_type = ModelType::kGemma3;
  m.sliding_window = 4;
  m.layer_types = {kWindowLayer, kFullLayer, kWindowLayer};
  m.rope_theta = 1e6;
  m.rope_local_base_freq = 100;
  m.rope_scaling = RopeScaling{.rope_type = RopeType::kLinear, .factor = 8};
  const ModelSpec spec = spec_of(m);
  CHECK(spec.common().norm(NormId::kKey).width == 6);
  CHECK(spec.layer(0).attention.rope.theta == 100);
  CHECK(!spec.layer(0).attention.rope.scaling.has_value());
  CHECK(spec.layer(1).attention.rope.theta == 1e6);
  CHECK(spec.layer(1).attention.rope.scaling.has_value());
  CHECK(spec.logits_cap == 0);
  CHECK_NOTHROW(make_layout(spec));
}

TEST_CASE("layers of an OLMo 3 with a window do not scale wavelengths") {
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kOlmo3;
  m.sliding_window = 4;
  m.layer_types = {kWindowLayer, kFullLayer, kWindowLayer};
  m.rope_scaling = RopeScaling{.rope_type = RopeType::kLinear, .factor = 8};
  const ModelSpec spec = spec_of(m);
  CHECK(spec.common().norm(NormId::kQuery).width == 24);
  CHECK(!spec.layer(0).attention.rope.scaling.has_value());
  CHECK(spec.layer(1).attention.rope.scaling.has_value());
}

TEST_CASE("layers of an EXAONE 4 without a window rotate only if there is none at all") {
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kExaone4;
  CHECK(spec_of(m).layer(1).attention.rotates);
  CHECK(spec_of(m).common().norm(NormId::kQuery).width == 6);
  CHECK(!spec_of(m).common().has(NormId::kAttention));
  m.sliding_window = 4;
  m.layer_types = {kWindowLayer, kFullLayer, kWindowLayer};
  CHECK(spec_of(m).layer(0).attention.rotates);
  CHECK(!spec_of(m).layer(1).attention.rotates);
}

TEST_CASE("a Ministral is a LLaMA some of whose layers have windows, and a Ministral 3 is one") {
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kMinistral;
  m.sliding_window = 4;
  m.layer_types = {kWindowLayer, kFullLayer, kWindowLayer};
  const ModelSpec spec = spec_of(m);
  CHECK(spec.kinds.size() == 2);
  CHECK(spec.layer(0).attention.window == 4);
  CHECK(spec.layer(1).attention.window == 0);
  CHECK(spec.layer(0).attention.rope == spec.layer(1).attention.rope);
  m.layer_types.reset();
  CHECK(spec_of(m).layer(1).attention.window == 4);
  LlamaConfig third = tiny_model(false);
  third.model_type = ModelType::kMinistral3;
  CHECK(spec_of(third).kinds.size() == 1);
  CHECK(spec_of(third).common().linear(LinearId::kQkv).sources.front().name ==
        "self_attn.q_proj.weight");
}

TEST_CASE("layers of a SmolLM3 rotate or not, and are equal otherwise") {
  LlamaConfig m = tiny_model(false);
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

TEST_CASE("a Phi-3 rotates the part of a head that its config says") {
  LlamaConfig m = tiny_model(false);
  m.model_type = ModelType::kPhi3;
  m.partial_rotary_factor = 0.75;  // of 6, with the fraction cut off
  CHECK(spec_of(m).common().attention.rope.width == 4);
  CHECK(spec_of(m).common().attention.head_size == 6);
}

}  // namespace strata
