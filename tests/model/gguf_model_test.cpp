// Tests what llama.cpp is told of a model: names and orders of tensors, keys that scale rotations,
// and refusals, by hand from llama.cpp's architectures. tests/e2e/gguf_test.py compares whole
// files.

#include "strata/model/gguf_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

LlamaConfig model_of(ModelType type) {
  LlamaConfig m = test::tiny_model();  // C 20, F 27, H 4, K 2, D 6, V 61, 3 layers
  m.model_type = type;
  return m;
}

const GgufPlace& place(const GgufModel& model, const std::string& source) {
  const auto found = std::ranges::find(model.tensors, source, &GgufPlace::source);
  REQUIRE(found != model.tensors.end());
  return *found;
}

std::string refusal(const LlamaConfig& config) {
  try {
    static_cast<void>(gguf_model_of(config));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a LLaMA's queries and keys are interleaved for llama.cpp, a Qwen3's are not") {
  const std::string key = "model.layers.2.self_attn.k_proj.weight";
  const GgufModel llama = gguf_model_of(model_of(ModelType::kMistral));
  CHECK(llama.architecture == "llama");
  CHECK(place(llama, key).name == "blk.2.attn_k.weight");
  CHECK(place(llama, key).shape == std::vector<std::int64_t>{12, 20});
  CHECK(place(llama, key).interleaved_rows == 6);
  CHECK(place(llama, "model.layers.2.self_attn.v_proj.weight").interleaved_rows == 0);
  const GgufModel qwen3 = gguf_model_of(model_of(ModelType::kQwen3));
  CHECK(qwen3.architecture == "qwen3");
  CHECK(place(qwen3, key).interleaved_rows == 0);
  CHECK(place(qwen3, "model.layers.0.self_attn.q_norm.weight").name == "blk.0.attn_q_norm.weight");
}

TEST_CASE("a Ministral 3 says how it scales queries of late positions, if it does") {
  LlamaConfig m = model_of(ModelType::kMinistral3);
  const std::string key = "mistral3.attention.temperature_scale";
  const auto has_scale = [&] {
    const GgufModel model = gguf_model_of(m);
    CHECK(model.architecture == "mistral3");
    return model.keys.bytes().find(key) != std::string::npos;
  };
  CHECK_FALSE(has_scale());
  m.llama_4_scaling_beta = 0.1;
  m.rope_scaling = RopeScaling{.rope_type = RopeType::kYarn, .factor = 4};
  CHECK(has_scale());
}

TEST_CASE("a tied model has no output.weight for llama.cpp") {
  const auto has_output = [](bool tied) {
    LlamaConfig m = model_of(ModelType::kLlama);
    m.tie_word_embeddings = tied;
    const GgufModel model = gguf_model_of(m);
    return std::ranges::count(model.tensors, std::string("output.weight"), &GgufPlace::name);
  };
  CHECK(has_output(false) == 1);
  CHECK(has_output(true) == 0);
}

TEST_CASE("what llama.cpp's architecture cannot express is refused with the key and a remedy") {
  LlamaConfig biased = model_of(ModelType::kQwen3);
  biased.attention_bias = true;
  CHECK(refusal(biased).find("attention_bias is true") != std::string::npos);
  CHECK(refusal(biased).find("--format hf") != std::string::npos);

  CHECK(refusal(model_of(ModelType::kQwen2)).find("head_dim is 6") != std::string::npos);

  LlamaConfig scaled = model_of(ModelType::kQwen3);
  scaled.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3};
  CHECK(refusal(scaled).find("rope_scaling.rope_type is llama3") != std::string::npos);
  scaled.model_type = ModelType::kLlama;
  CHECK(refusal(scaled).empty());
  CHECK(gguf_model_of(scaled).rope_factors.at(0).name == "rope_freqs.weight");
  CHECK(gguf_model_of(scaled).rope_factors.at(0).values.size() == 3);
  scaled.rope_scaling->rope_type = RopeType::kDynamic;
  CHECK(refusal(scaled).find("rope_scaling to null") != std::string::npos);
  scaled.rope_scaling = RopeScaling{.rope_type = RopeType::kYarn, .truncate = false};
  CHECK(refusal(scaled).find("rope_scaling.truncate") != std::string::npos);
}

TEST_CASE("a Gemma's norms reach llama.cpp as what they multiply by") {
  LlamaConfig m = model_of(ModelType::kGemma);
  m.tie_word_embeddings = true;
  const GgufModel model = gguf_model_of(m);
  CHECK(place(model, "model.norm.weight").offset == 1);
  CHECK(place(model, "model.layers.0.input_layernorm.weight").offset == 1);
  CHECK(place(model, "model.layers.0.mlp.down_proj.weight").offset == 0);
  m.tie_word_embeddings = false;
  CHECK(refusal(m).find("tie_word_embeddings is false") != std::string::npos);
}

TEST_CASE("norms have the names that their architecture has for them") {
  const std::string norm = "model.layers.1.post_attention_layernorm.weight";
  LlamaConfig olmo2 = model_of(ModelType::kOlmo2);
  olmo2.hidden_size = 24;  // which the heads fill
  CHECK(place(gguf_model_of(olmo2), norm).name == "blk.1.post_attention_norm.weight");
  olmo2.tie_word_embeddings = true;
  CHECK(refusal(olmo2).find("tie_word_embeddings is true") != std::string::npos);
  LlamaConfig seed = model_of(ModelType::kSeedOss);
  CHECK(place(gguf_model_of(seed), norm).name == "blk.1.post_attention_norm.weight");
  seed.attention_out_bias = true;
  CHECK(refusal(seed).find("attention_out_bias is true") != std::string::npos);
  CHECK(place(gguf_model_of(model_of(ModelType::kGranite)), norm).name == "blk.1.ffn_norm.weight");
}

TEST_CASE("a SmolLM3 goes to llama.cpp where every fourth layer does not rotate") {
  LlamaConfig m = model_of(ModelType::kSmolLm3);
  CHECK(refusal(m).empty());
  m.no_rope_layers = std::vector{1.0, 0.0, 1.0};
  CHECK(refusal(m).find("no_rope_layers says of layer 1 that it does not rotate") !=
        std::string::npos);
  m.num_hidden_layers = 4;
  m.no_rope_layers = std::vector(4, 1.0);
  CHECK(refusal(m).find("of layer 3 that it rotates") != std::string::npos);
}

TEST_CASE("windows do not go to llama.cpp where its architecture has none") {
  for (const ModelType type : {ModelType::kQwen3, ModelType::kMistral}) {
    LlamaConfig m = model_of(type);
    m.sliding_window = 64;
    CHECK(refusal(m).find("sliding_window is 64") != std::string::npos);
  }
}

TEST_CASE("an EXAONE 4 has windows in llama.cpp if it has 64 layers, and only then") {
  LlamaConfig m = model_of(ModelType::kExaone4);
  m.hidden_size = 24;  // which the heads fill
  CHECK(refusal(m).empty());
  m.num_hidden_layers = 64;
  CHECK(refusal(m).find("sliding_window is null") != std::string::npos);
  m.sliding_window = 8;
  CHECK(refusal(m).empty());
  CHECK(gguf_model_of(m).keys.bytes().find("sliding_window_pattern") != std::string::npos);
  m.layer_types = std::vector<std::string>(64, kFullLayer);
  CHECK(refusal(m).find("layer_types names no layer") != std::string::npos);
  m.layer_types.reset();
  m.num_hidden_layers = 3;
  CHECK(refusal(m).find("num_hidden_layers is 3") != std::string::npos);
}

TEST_CASE("a Gemma 2 and a Gemma 3 go to llama.cpp with the scale and the caps that it has") {
  LlamaConfig m = model_of(ModelType::kGemma2);
  m.tie_word_embeddings = true;
  m.sliding_window = 8;
  CHECK(refusal(m).find("attn_logit_softcapping is null") != std::string::npos);
  m.attn_logit_softcapping = 50;
  CHECK(refusal(m).find("final_logit_softcapping is null") != std::string::npos);
  m.final_logit_softcapping = 30;
  CHECK(refusal(m).empty());
  m.query_pre_attn_scalar = 5;  // C / H, where a head has 6
  CHECK(refusal(m).find("query_pre_attn_scalar is 5") != std::string::npos);
  m.num_hidden_layers = 46;
  CHECK(refusal(m).empty());
  m.model_type = ModelType::kGemma3;
  m.num_hidden_layers = 62;
  CHECK(refusal(m).find("attn_logit_softcapping is set") != std::string::npos);
  m.attn_logit_softcapping.reset();
  CHECK(refusal(m).empty());
  m.rope_scaling = RopeScaling{.rope_type = RopeType::kYarn, .attention_factor = 1.5};
  CHECK(refusal(m).find("rope_scaling.attention_factor is 1.5") != std::string::npos);
}

TEST_CASE("a GLM-4 rotates the pairs that llama.cpp does, and keeps the order of its rows") {
  const GgufModel model = gguf_model_of(model_of(ModelType::kGlm4));
  const std::string layer = "model.layers.1.";
  CHECK(place(model, layer + "self_attn.q_proj.weight").interleaved_rows == 0);
  CHECK(place(model, layer + "mlp.gate_up_proj.weight").name == "blk.1.ffn_up.weight");
  CHECK(place(model, layer + "post_attention_layernorm.weight").name == "blk.1.ffn_norm.weight");
  CHECK(place(model, layer + "post_self_attn_layernorm.weight").name ==
        "blk.1.post_attention_norm.weight");
}

TEST_CASE("longrope's factors are tensors of their own where llama.cpp reads them") {
  LlamaConfig m = model_of(ModelType::kLlama);
  m.rope_scaling = RopeScaling{
      .rope_type = RopeType::kLongRope, .short_factor = {1, 1, 2}, .long_factor = {1, 3, 9}};
  const std::vector<GgufVector> factors = gguf_model_of(m).rope_factors;
  REQUIRE(factors.size() == 2);
  CHECK(factors[0].name == "rope_factors_long.weight");
  CHECK(factors[0].values == std::vector<float>{1, 3, 9});
  CHECK(factors[1].values == std::vector<float>{1, 1, 2});
  m.model_type = ModelType::kQwen3;
  CHECK(refusal(m).find("rope_scaling.rope_type is longrope") != std::string::npos);
}

}  // namespace strata
