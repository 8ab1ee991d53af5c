// Tests that config.json files of families with keys of their own are read with the defaults of
// their classes in transformers 5.24, refused by key, and written again as they were meant.

#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_texts.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/model/config.h"
#include "strata/model/family_list.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns the text of a config.json of 4 heads and of the family's class, plus `more` keys.
std::string text_of(const std::string& model_class, const std::string& type,
                    const std::string& more) {
  return R"({"architectures": [")" + model_class + R"("], "model_type": ")" + type + R"(",
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4)" +
         (more.empty() ? "" : ", " + more) + "}";
}

/// Requires that a new config.json of this model is read as the same model.
void require_written(const LlamaConfig& config) {
  CHECK(parse(llama_config_text(config, DType::kBF16, std::nullopt)) == config);
}

}  // namespace

TEST_CASE("a Granite is read with its multipliers, or with those of its class") {
  const auto load = [](const std::string& more) {
    return parse(text_of("GraniteForCausalLM", "granite", more));
  };
  const LlamaConfig plain = load("");
  CHECK(plain.model_type == ModelType::kGranite);
  CHECK(plain.embedding_multiplier == 1);
  CHECK(plain.residual_multiplier == 1);
  CHECK(plain.attention_multiplier == 1);
  CHECK(plain.logits_scaling == 1);
  CHECK(plain.max_position_embeddings == 2048);
  CHECK(plain.rms_norm_eps == 1e-6);
  CHECK(plain.kv_heads() == 4);
  require_written(plain);
  // what the files of Granite 3 have
  const LlamaConfig c = load(R"("attention_bias": false, "attention_dropout": 0.0,
      "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "logits_scaling": 16.0,
      "mlp_bias": false, "residual_multiplier": 0.22, "tie_word_embeddings": true)");
  CHECK(c.embedding_multiplier == 12);
  CHECK(c.residual_multiplier == 0.22);
  CHECK(c.attention_multiplier == 0.015625);
  CHECK(c.logits_scaling == 16);
  require_written(c);
  CHECK_THROWS_WITH(load(R"("logits_scaling": 0)"), ContainsSubstring("logits_scaling: must be"));
  CHECK_THROWS_WITH(load(R"("attention_multiplier": -1)"),
                    ContainsSubstring("attention_multiplier: must be"));
  for (const std::string key : {"attention_bias", "mlp_bias"}) {
    CHECK_THROWS_WITH(load('"' + key + "\": true"),
                      ContainsSubstring(key + ": must be false for model_type \"granite\""));
  }
}

TEST_CASE("a new Granite that leaves the scale of scores open says it in its config.json") {
  LlamaConfig c = parse(text_of("GraniteForCausalLM", "granite", ""));
  c.attention_multiplier.reset();
  const LlamaConfig read = parse(llama_config_text(c, DType::kF32, std::nullopt));
  CHECK(read.attention_multiplier == 1 / std::sqrt(16.0));
}

TEST_CASE("an OLMo 2 is read with the defaults of its class") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Olmo2ForCausalLM", "olmo2", more));
  };
  const LlamaConfig c = load(R"("attention_bias": false, "attention_dropout": 0.0,
      "hidden_act": "silu", "rope_scaling": null)");
  CHECK(c.model_type == ModelType::kOlmo2);
  CHECK(c.rms_norm_eps == 1e-5);
  CHECK(c.max_position_embeddings == 2048);
  CHECK(load("") == c);
  require_written(c);
  CHECK(load(R"("attention_bias": true)").attention_bias);
  CHECK_THROWS_WITH(load(R"("mlp_bias": true)"), ContainsSubstring("mlp_bias"));
  CHECK_THROWS_WITH(load(R"("clip_qkv": 8)"), ContainsSubstring("clip_qkv"));
  CHECK_THROWS_WITH(parse(text_of("OlmoForCausalLM", "olmo", "")), ContainsSubstring("Olmo"));
}

TEST_CASE("a Seed-OSS is read with the biases that its config asks for, and without dropout") {
  const std::string kept = R"("attention_dropout": 0.0, "residual_dropout": 0)";
  const auto load = [](const std::string& more) {
    return parse(text_of("SeedOssForCausalLM", "seed_oss", more));
  };
  const LlamaConfig c = load(kept + R"(, "num_key_value_heads": 2)");
  CHECK(c.model_type == ModelType::kSeedOss);
  CHECK(c.attention_bias);
  CHECK_FALSE(c.attention_out_bias);
  CHECK_FALSE(c.mlp_bias);
  CHECK(c.head_size() == 128);
  CHECK(c.max_position_embeddings == 524288);
  require_written(c);
  LlamaConfig other = load(kept + R"(, "num_key_value_heads": 2, "attention_bias": false,
      "attention_out_bias": true, "mlp_bias": true, "head_dim": 8)");
  CHECK_FALSE(other.attention_bias);
  CHECK(other.attention_out_bias);
  CHECK(other.mlp_bias);
  require_written(other);
  CHECK_THROWS_WITH(load(kept), ContainsSubstring("takes 8, no divisor"));
  CHECK_THROWS_WITH(load(""), ContainsSubstring("attention_dropout: is missing") &&
                                  ContainsSubstring("residual_dropout: is missing"));
  CHECK_THROWS_WITH(load(R"("attention_dropout": 0.1, "residual_dropout": 0.1)"),
                    ContainsSubstring("attention_dropout: strata drops nothing out") &&
                        ContainsSubstring("residual_dropout: strata drops nothing out"));
}

TEST_CASE("the first Gemma is read with its activation under all names that transformers takes") {
  const auto load = [](const std::string& more) {
    return parse(text_of("GemmaForCausalLM", "gemma",
                         R"("num_key_value_heads": 1)" + (more.empty() ? "" : ", " + more)));
  };
  const LlamaConfig c = load("");
  CHECK(c.model_type == ModelType::kGemma);
  CHECK(c.tie_word_embeddings);
  CHECK(c.head_size() == 256);
  CHECK(c.max_position_embeddings == 8192);
  CHECK(c.rms_norm_eps == 1e-6);
  require_written(c);
  CHECK_FALSE(load(R"("tie_word_embeddings": false)").tie_word_embeddings);
  CHECK(load(R"("hidden_act": "gelu", "hidden_activation": null)") == c);
  CHECK(load(R"("hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh")") == c);
  CHECK_THROWS_WITH(load(R"("hidden_act": "silu")"), ContainsSubstring("hidden_act: only"));
  CHECK_THROWS_WITH(load(R"("hidden_activation": "relu")"),
                    ContainsSubstring("hidden_activation: only"));
  CHECK_THROWS_WITH(load(R"("use_bidirectional_attention": true)"),
                    ContainsSubstring("use_bidirectional_attention"));
  CHECK_THROWS_WITH(parse(text_of("GemmaForCausalLM", "gemma", "")),
                    ContainsSubstring("takes 16, no divisor"));
}

TEST_CASE("a GLM-4 is read with the part of heads that its class rotates, and with biases") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Glm4ForCausalLM", "glm4", more));
  };
  const LlamaConfig c = load("");
  CHECK(c.model_type == ModelType::kGlm4);
  CHECK(c.partial_rotary_factor == 0.5);
  CHECK(c.rotary_width() == 64);
  CHECK(c.attention_bias);
  CHECK(c.kv_heads() == 2);
  CHECK(c.rms_norm_eps == 1.5625e-7);
  CHECK(c.max_position_embeddings == 131072);
  require_written(c);
  // what the files of GLM-4-0414 have
  CHECK(load(R"("head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
      "attention_bias": true, "attention_dropout": 0.0, "hidden_act": "silu",
      "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-7, "tie_word_embeddings": false)") == c);
  CHECK_FALSE(load(R"("attention_bias": false)").attention_bias);
  CHECK_THROWS_WITH(load(R"("mlp_bias": true)"), ContainsSubstring("mlp_bias"));
  CHECK_THROWS_WITH(parse(text_of("Glm4MoeForCausalLM", "glm4_moe", "")),
                    ContainsSubstring("found [\"Glm4MoeForCausalLM\"]"));
}

TEST_CASE("the part of heads that is rotated stays when another key of the rotation changes") {
  const std::string file = text_of(
      "Glm4ForCausalLM", "glm4",
      R"("rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25})");
  LlamaConfig c = parse(file);
  CHECK(c.partial_rotary_factor == 0.25);
  c.rope_theta = 1000;
  CHECK(parse(llama_config_text(c, DType::kBF16, file)) == c);
  c.partial_rotary_factor = 1;
  CHECK(parse(llama_config_text(c, DType::kBF16, file)) == c);
}

TEST_CASE("a Gemma 2 is read with the windows, caps and scale of its class") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Gemma2ForCausalLM", "gemma2", more));
  };
  const LlamaConfig c = load("");
  CHECK(c.model_type == ModelType::kGemma2);
  CHECK(c.sliding_window == 4096);
  CHECK(c.window(0) == 4096);
  CHECK(c.window(1) == 0);
  CHECK_FALSE(c.layer_types.has_value());
  CHECK(c.query_pre_attn_scalar == 256);
  CHECK(c.attn_logit_softcapping == 50);
  CHECK(c.final_logit_softcapping == 30);
  CHECK(c.head_size() == 256);
  CHECK(c.tie_word_embeddings);
  require_written(c);
  // what the files of Gemma 2 have
  CHECK(load(R"("hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
      "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "cache_implementation":
      "hybrid", "query_pre_attn_scalar": 256, "sliding_window": 4096,
      "sliding_window_size": 4096, "rope_theta": 10000.0)") == c);
  LlamaConfig plain = load(R"("attn_logit_softcapping": null, "final_logit_softcapping": null,
      "layer_types": ["full_attention", "full_attention"])");
  CHECK_FALSE(plain.attn_logit_softcapping.has_value());
  CHECK_FALSE(plain.final_logit_softcapping.has_value());
  CHECK(plain.window(0) == 0);
  require_written(plain);
  plain.query_pre_attn_scalar.reset();
  CHECK(parse(llama_config_text(plain, DType::kF32, std::nullopt)).query_pre_attn_scalar == 256);
  // A window hides nothing here, but the kinds of layers stay.
  CHECK(load(R"("sliding_window": 8192)").sliding_window == 8192);
  CHECK_THROWS_WITH(load(R"("sliding_window": null)"), ContainsSubstring("sliding_window: must"));
  CHECK_THROWS_WITH(load(R"("hidden_activation": "gelu")"),
                    ContainsSubstring("hidden_activation: only"));
  CHECK_THROWS_WITH(load(R"("final_logit_softcapping": 0)"),
                    ContainsSubstring("final_logit_softcapping: must be above 0"));
  CHECK_THROWS_WITH(load(R"("use_bidirectional_attention": true)"),
                    ContainsSubstring("use_bidirectional_attention"));
  CHECK_THROWS_WITH(load(R"("rope_local_base_freq": 100)"),
                    ContainsSubstring("rope_local_base_freq"));
}

TEST_CASE("a Gemma 3 is read with both thetas, in the spellings of transformers 4 and 5") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Gemma3ForCausalLM", "gemma3_text", more));
  };
  const LlamaConfig c = load("");
  CHECK(c.model_type == ModelType::kGemma3);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.rope_local_base_freq == 1e4);
  CHECK(c.window(4) == 4096);
  CHECK(c.window(5) == 0);
  CHECK_FALSE(c.final_logit_softcapping.has_value());
  require_written(c);
  CHECK_THROWS_WITH(load(R"("attn_logit_softcapping": 50.0)"),
                    ContainsSubstring("attn_logit_softcapping: only a Gemma 2 has capped scores"));
  const LlamaConfig old = load(R"("rope_theta": 2e6, "rope_local_base_freq": 500.0,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 512,
      "sliding_window_pattern": 2)");
  CHECK(old.rope_theta == 2e6);
  CHECK(old.rope_local_base_freq == 500);
  CHECK(old.rope_scaling.value().factor == 8);
  CHECK(old.window(0) == 512);
  CHECK(old.window(1) == 0);
  require_written(old);
  CHECK(load(R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0,
      "rope_theta": 2e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}},
      "sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"])") == old);
  CHECK_THROWS_WITH(load(R"("rope_parameters": {"rope_theta": 1e6})"),
                    ContainsSubstring("rope_parameters: must say full_attention and"));
  CHECK_THROWS_WITH(load(R"("rope_parameters": {"sliding_attention": {"rope_type": "linear",
      "factor": 2.0, "rope_theta": 1e4}})"),
                    ContainsSubstring("rope_parameters.sliding_attention.rope_type: only"));
  CHECK_THROWS_WITH(load(R"("sliding_window_pattern": "LG")"),
                    ContainsSubstring("sliding_window_pattern: expected"));
}

TEST_CASE("an OLMo 3 is read with the theta that transformers has for it") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Olmo3ForCausalLM", "olmo3", more));
  };
  const LlamaConfig c = load("");
  CHECK(c.rope_theta == 500000);
  CHECK(c.window(2) == 4096);
  CHECK(c.window(3) == 0);
  require_written(c);
  const LlamaConfig yarn = load(R"("rope_theta": 500000, "rope_scaling": {"rope_type": "yarn",
      "factor": 8.0, "original_max_position_embeddings": 1024, "attention_factor": 1.2})");
  CHECK(yarn.rope_scaling.value().rope_type == RopeType::kYarn);
  require_written(yarn);
  CHECK_THROWS_WITH(load(R"("rope_theta": 10000)"),
                    ContainsSubstring("rope_theta: must be 500000"));
  CHECK_THROWS_WITH(load(R"("rope_parameters": {"sliding_attention": {"rope_theta": 1e4}})"),
                    ContainsSubstring("sliding_attention.rope_theta: must be 500000"));
}

TEST_CASE("an EXAONE 4 is read with a window, or rotates in all layers") {
  const auto load = [](const std::string& more) {
    return parse(text_of("Exaone4ForCausalLM", "exaone4", R"("num_key_value_heads": 2, )" + more));
  };
  const LlamaConfig plain = load(R"("sliding_window": null, "sliding_window_pattern": null,
      "layer_types": ["full_attention", "full_attention"], "rope_theta": 1e6)");
  CHECK_FALSE(plain.sliding_window.has_value());
  require_written(plain);
  const LlamaConfig c = load(R"("sliding_window": 128, "sliding_window_pattern": "LG",
      "layer_types": ["sliding_attention", "full_attention"])");
  CHECK(c.window(0) == 128);
  CHECK(c.window(1) == 0);
  require_written(c);
  // No layer has it, but none rotates then.
  const LlamaConfig still = load(R"("sliding_window": 128, "layer_types":
      ["full_attention", "full_attention"])");
  CHECK(still.sliding_window == 128);
  require_written(still);
  CHECK_THROWS_WITH(load(R"("sliding_window": null, "layer_types":
      ["sliding_attention", "full_attention"])"),
                    ContainsSubstring("sliding_window: must be an integer"));
  CHECK_THROWS_WITH(load(R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})"),
                    ContainsSubstring("rope_parameters: must say the same"));
}

TEST_CASE("a Ministral is read with the window of its class, in the layers that its file says") {
  const auto load = [](const std::string& more) {
    return parse(
        text_of("MinistralForCausalLM", "ministral", R"("num_key_value_heads": 2, )" + more));
  };
  const LlamaConfig c = load(R"("rms_norm_eps": 1e-05)");
  CHECK(c.window(0) == 4096);
  CHECK(c.window(1) == 4096);
  CHECK(c.max_position_embeddings == 131072);
  require_written(c);
  const LlamaConfig mixed = load(R"("sliding_window": 128,
      "layer_types": ["full_attention", "sliding_attention"])");
  CHECK(mixed.window(0) == 0);
  CHECK(mixed.window(1) == 128);
  require_written(mixed);
  const LlamaConfig full = load(R"("sliding_window": 128,
      "layer_types": ["full_attention", "full_attention"])");
  CHECK_FALSE(full.sliding_window.has_value());
  require_written(full);
  CHECK_THROWS_WITH(load(R"("sliding_window": null)"),
                    ContainsSubstring("sliding_window: must be an integer"));
  CHECK_THROWS_WITH(load(R"("sliding_window": 128, "use_sliding_window": 1,
      "layer_types": ["full_attention", "strided"])"),
                    ContainsSubstring("layer_types: expected a list"));
}

TEST_CASE("a Ministral 3 is read for rows in which no query is scaled") {
  const auto load = [](const std::string& more) {
    return parse(
        text_of("Ministral3ForCausalLM", "ministral3", R"("num_key_value_heads": 2, )" + more));
  };
  // As the files of the 8B have it.
  const std::string beside = R"("beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384,
      "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn")";
  const LlamaConfig c = load(R"("max_position_embeddings": 262144, "rope_parameters": {)" + beside +
                             R"(, "llama_4_scaling_beta": 0.1})");
  CHECK(c.llama_4_scaling_beta == 0.1);
  CHECK(c.head_size() == 128);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.row_limit() == 16384);
  CHECK(c.context_limit() == 16384);
  CHECK_THAT(std::string(c.context_limit_name()), ContainsSubstring("llama_4_scaling_beta"));
  require_written(c);
  const LlamaConfig unscaled = load(R"("rope_parameters": {)" + beside + "}");
  CHECK(unscaled.row_limit() == 262144);
  require_written(unscaled);
  const LlamaConfig plain = load(R"("rope_parameters": {"rope_type": "default",
      "llama_4_scaling_beta": 0.0, "original_max_position_embeddings": 8192})");
  CHECK_FALSE(plain.rope_scaling.has_value());
  CHECK(plain.context_limit() == 262144);
  require_written(plain);
  CHECK_THROWS_WITH(load(R"("rope_theta": 1e6)"),
                    ContainsSubstring("rope_parameters: is required"));
  CHECK_THROWS_WITH(load(R"("rope_parameters": {"rope_type": "default",
      "llama_4_scaling_beta": 0.1})"),
                    ContainsSubstring("llama_4_scaling_beta: needs a rope_scaling of yarn"));
  CHECK_THROWS_WITH(load(R"("sliding_window": 4096, "rope_parameters": {)" + beside + "}"),
                    ContainsSubstring("sliding_window: only attention without a window"));
}

TEST_CASE("keys of one family are refused in a config of another") {
  LlamaConfig c = parse(text_of("LlamaForCausalLM", "llama", ""));
  c.residual_multiplier = 0.5;
  c.attention_multiplier = 0.5;
  ConfigProblems problems;
  c.validate(problems, "model.");
  CHECK_THROWS_WITH(
      problems.throw_if_any("run"),
      ContainsSubstring("model.residual_multiplier: must be 1.0 for model_type \"llama\"") &&
          ContainsSubstring("model.attention_multiplier: must be null for model_type \"llama\""));
}

TEST_CASE("the help of a key that not all families have names those that have it") {
  LlamaConfig config;
  const FieldList fields = fields_of(config);
  const std::vector<FamilySummary> families = list_families();
  CHECK(families.size() == std::size(kModelTypeNames));
  for (const FamilySummary& family : families) {
    for (const std::string_view key : family.own_keys) {
      INFO(family.type << ' ' << key);
      CHECK_THAT(fields.find(key)->description, ContainsSubstring(std::string(family.type)));
    }
  }
}

}  // namespace strata::test
