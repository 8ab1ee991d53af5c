// Tests parameter counts against published models, and that Hugging Face configs of several
// versions are read right or refused by key.

#include "strata/model/config.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"

namespace {

using strata::ConfigError;
using strata::ConfigProblems;
using strata::LlamaConfig;
using strata::ModelType;
using strata::RopeScaling;
using strata::RopeType;

/// A config.json that lives as long as this object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("strata_model_config_" + std::to_string(getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  [[nodiscard]] LlamaConfig load() const { return strata::load_llama_config(path_); }

 private:
  std::filesystem::path path_;
};

/// A Hugging Face config.json of sizes 100, 8, 12, 2 layers, 4 heads, plus `more` keys.
LlamaConfig load_with(const std::string& more) {
  return ConfigFile(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4, "torch_dtype": "bfloat16", "use_cache": true)" +
                    (more.empty() ? "" : ", " + more) + "}")
      .load();
}

std::string complaint_with(const std::string& more) {
  try {
    load_with(more);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

LlamaConfig small() {
  LlamaConfig c;
  c.vocab_size = 11;
  c.hidden_size = 8;
  c.intermediate_size = 6;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  return c;
}

std::string complaint_about(const LlamaConfig& config) {
  ConfigProblems problems;
  config.validate(problems, "model.");
  try {
    problems.throw_if_any("test");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("parameters of LLaMA-7B and of Llama 3.2 1B are counted as published") {
  LlamaConfig llama_7b;
  llama_7b.vocab_size = 32000;
  llama_7b.hidden_size = 4096;
  llama_7b.intermediate_size = 11008;
  llama_7b.num_hidden_layers = 32;
  llama_7b.num_attention_heads = 32;
  CHECK(llama_7b.parameter_count() == 6738415616);

  LlamaConfig llama_3_1b;
  llama_3_1b.vocab_size = 128256;
  llama_3_1b.hidden_size = 2048;
  llama_3_1b.intermediate_size = 8192;
  llama_3_1b.num_hidden_layers = 16;
  llama_3_1b.num_attention_heads = 32;
  llama_3_1b.num_key_value_heads = 8;
  llama_3_1b.tie_word_embeddings = true;
  CHECK(llama_3_1b.parameter_count() == 1235814400);
}

TEST_CASE("head sizes follow from the width unless they are given") {
  LlamaConfig c = small();
  CHECK(c.head_size() == 2);
  CHECK(c.kv_heads() == 4);
  c.head_dim = 6;
  c.num_key_value_heads = 1;
  CHECK(c.head_size() == 6);
  CHECK(c.kv_heads() == 1);
}

TEST_CASE("an impossible architecture is refused by key") {
  CHECK(complaint_about(small()) == "no error");
  LlamaConfig c;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.vocab_size: is required"));
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_attention_heads: is required"));
  c = small();
  c.num_key_value_heads = 3;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_key_value_heads: must divide"));
  c = small();
  c.num_attention_heads = 3;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_attention_heads: must divide"));
  c = small();
  c.num_attention_heads = 8;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.head_dim: must be even"));
  c = small();
  c.hidden_size = -8;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.hidden_size: must be from 1"));
  c = small();
  c.rms_norm_eps = 0;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.rms_norm_eps"));
  c = small();
  c.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3, .low_freq_factor = 4.0};
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.rope_scaling.high_freq_factor"));
}

TEST_CASE("a Hugging Face config is read and its other keys are ignored") {
  const LlamaConfig c = load_with(
      R"("num_key_value_heads": 2, "head_dim": 16, "rope_theta": 500000.0, "rms_norm_eps": 1e-05,
         "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false,
         "mlp_bias": false, "rope_scaling": null, "max_position_embeddings": 4096,
         "initializer_range": 0.01, "pretraining_tp": 1)");
  LlamaConfig expected;
  expected.vocab_size = 100;
  expected.hidden_size = 8;
  expected.intermediate_size = 12;
  expected.num_hidden_layers = 2;
  expected.num_attention_heads = 4;
  expected.num_key_value_heads = 2;
  expected.head_dim = 16;
  expected.max_position_embeddings = 4096;
  expected.rope_theta = 500000.0;
  expected.rms_norm_eps = 1e-5;
  expected.tie_word_embeddings = true;
  expected.initializer_range = 0.01;
  CHECK(c == expected);
}

TEST_CASE("keys that a Hugging Face config leaves out have the defaults of transformers") {
  const LlamaConfig c = load_with("\"head_dim\": null");
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 10000.0);
  CHECK(c.max_position_embeddings == 2048);
  CHECK(c.kv_heads() == 4);
  CHECK(c.head_size() == 2);
  CHECK_FALSE(c.tie_word_embeddings);
}

TEST_CASE("llama3 scaling is read under the old, the present and the nested key") {
  const std::string numbers = R"("factor": 32, "low_freq_factor": 1.5, "high_freq_factor": 5,
                                 "original_max_position_embeddings": 4096)";
  const RopeScaling expected{.rope_type = RopeType::kLlama3,
                             .factor = 32,
                             .low_freq_factor = 1.5,
                             .high_freq_factor = 5,
                             .original_max_position_embeddings = 4096};
  CHECK(load_with(R"("rope_scaling": {"rope_type": "llama3", )" + numbers + "}").rope_scaling ==
        expected);
  CHECK(load_with(R"("rope_scaling": {"type": "llama3", )" + numbers + "}").rope_scaling ==
        expected);
  const LlamaConfig nested = load_with(
      R"("rope_parameters": {"rope_theta": 250000, "rope_type": "llama3", )" + numbers + "}");
  CHECK(nested.rope_scaling == expected);
  CHECK(nested.rope_theta == 250000.0);
}

TEST_CASE("linear and yarn scalings are read, and written again as they were meant") {
  const auto again = [](const LlamaConfig& config) {
    return strata::parse_llama_config(
        strata::llama_config_text(config, strata::DType::kBF16, std::nullopt), "again");
  };
  const LlamaConfig linear = load_with(R"("rope_scaling": {"type": "linear", "factor": 4})");
  CHECK(linear.rope_scaling == RopeScaling{.rope_type = RopeType::kLinear, .factor = 4});
  CHECK(again(linear) == linear);
  const LlamaConfig yarn = load_with(
      R"("max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4})");
  RopeScaling expected{.rope_type = RopeType::kYarn, .factor = 4};
  expected.original_max_position_embeddings = 4096;  // as transformers has it where nobody says it
  CHECK(yarn.rope_scaling == expected);
  CHECK(again(yarn) == yarn);
  const LlamaConfig full = load_with(
      R"("original_max_position_embeddings": 32, "rope_parameters": {"rope_type": "yarn",
         "factor": 4, "beta_fast": 30, "beta_slow": 2, "truncate": false, "mscale": 0.7,
         "mscale_all_dim": 0.9, "attention_factor": null})");
  CHECK(full.rope_scaling->original_max_position_embeddings == 32);
  CHECK(full.rope_scaling->beta_fast == 30);
  CHECK_FALSE(full.rope_scaling->truncate);
  CHECK(full.rope_scaling->mscale_all_dim == 0.9);
  CHECK_FALSE(full.rope_scaling->attention_factor);
  CHECK(again(full) == full);
  CHECK_THAT(complaint_with(R"("rope_scaling": {"type": "yarn"})"),
             ContainsSubstring("rope_scaling.factor: is required for yarn"));
  CHECK_THAT(complaint_with(R"("rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 0.5})"),
             ContainsSubstring("rope_scaling.beta_fast: must be at least beta_slow"));
  CHECK_THAT(complaint_with(R"("rope_scaling": {"type": "linear", "factor": 0.5})"),
             ContainsSubstring("rope_scaling.factor: must be at least 1"));
}

TEST_CASE("rope parameters of transformers 5 without scaling give theta alone") {
  const LlamaConfig c =
      load_with(R"("rope_parameters": {"rope_theta": 1000, "rope_type": "default"})");
  CHECK(c.rope_theta == 1000.0);
  CHECK_FALSE(c.rope_scaling.has_value());
}

TEST_CASE("a model that strata would compute wrongly is refused") {
  CHECK_THAT(complaint_with(R"("hidden_act": "gelu")"), ContainsSubstring("hidden_act"));
  CHECK_THAT(complaint_with(R"("quantization_config": {"bits": 4})"),
             ContainsSubstring("quantization_config"));
  CHECK_THAT(
      complaint_with(R"("rope_scaling": {"type": "proportional", "factor": 2})"),
      ContainsSubstring("rope_scaling.rope_type: \"default\", \"linear\", \"dynamic\", \"yarn\", "
                        "\"llama3\", \"longrope\" are supported, found \"proportional\""));
  CHECK_THAT(complaint_with(R"("rope_scaling": {"rope_type": "llama3", "factor": 8})"),
             ContainsSubstring("rope_scaling.low_freq_factor: is required"));
  CHECK_THAT(complaint_with(R"("num_key_value_heads": 3)"), ContainsSubstring("must divide"));
  CHECK_THAT(complaint_with(R"("rms_norm_eps": "small")"), ContainsSubstring("expected a number"));
  const ConfigFile gemma(R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4"})");
  CHECK_THROWS_WITH(gemma.load(), ContainsSubstring("Gemma4ForCausalLM"));
}

TEST_CASE("keys whose other values would change what is computed are refused by name") {
  for (const std::string key :
       {R"("attention_dropout": 0.1)", R"("partial_rotary_factor": 0.5)", R"("qkv_bias": true)",
        R"("sliding_window": 1024)", R"("layer_types": ["sliding_attention"])",
        R"("use_qk_norm": true)", R"("logits_scaling": 8)", R"("embedding_multiplier": 12)",
        R"("final_logit_softcapping": 30)", R"("num_local_experts": 8)",
        R"("compression_config": {})", R"("original_max_position_embeddings": 1, "rope_scaling":
           {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 8192})"}) {
    const std::string name = key.substr(1, key.find('"', 1) - 1);
    CAPTURE(name);
    CHECK_THAT(complaint_with(key), ContainsSubstring("\n  " + name));
  }
}

TEST_CASE("keys with the values that strata computes are accepted") {
  CHECK(load_with(R"("attention_dropout": 0.0, "partial_rotary_factor": 1.0, "qkv_bias": false,
                     "sliding_window": null, "layer_types": ["full_attention", "full_attention"],
                     "pretraining_tp": 2, "logits_scaling": 1.0)") == load_with(""));
  CHECK(load_with(R"("sliding_window": 1024, "use_sliding_window": false)") == load_with(""));
  CHECK(load_with(R"("sliding_window": 2048, "max_position_embeddings": 2048)") == load_with(""));
}

TEST_CASE("rotary scalings that disagree within a file are refused") {
  const std::string llama3 = R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
      "high_freq_factor": 4, "original_max_position_embeddings": 8192)";
  // transformers 5 takes rope_scaling where both are given, earlier ones know no rope_parameters
  CHECK_THAT(complaint_with(R"("rope_scaling": )" + llama3 +
                            R"(}, "rope_parameters": {"rope_type": "default"})"),
             ContainsSubstring("rope_scaling: is {") &&
                 ContainsSubstring("but rope_parameters says otherwise"));
  CHECK_THAT(complaint_with(R"("rope_theta": 10000, "rope_parameters": {"rope_theta": 500000})"),
             ContainsSubstring("rope_parameters.rope_theta: is 500000, but rope_theta is 10000"));
  CHECK_THAT(complaint_with(R"("rope_scaling": {"type": "default", "rope_type": "llama3"})"),
             ContainsSubstring("rope_scaling.type"));
  CHECK_THAT(complaint_with(R"("rope_scaling": {"factor": 8})"),
             ContainsSubstring("rope_scaling.rope_type: is required beside factor"));
  const LlamaConfig agreeing =
      load_with(R"("rope_theta": 500000, "rope_scaling": )" + llama3 + R"(}, "rope_parameters": )" +
                llama3 + R"(, "rope_theta": 500000.0})");
  CHECK(agreeing.rope_theta == 500000.0);
  CHECK(agreeing.rope_scaling->factor == 8);
}

namespace {

/// A Hugging Face config.json of a Mistral with the same sizes, plus `more` keys.
std::string mistral_with(const std::string& more) {
  return R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "head_dim": 2)" +
         std::string(more.find("num_attention_heads") == more.npos
                         ? R"(, "num_attention_heads": 16)"
                         : "") +
         (more.empty() ? "" : ", " + more) + "}";
}

}  // namespace

TEST_CASE("a Mistral without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return strata::parse_llama_config(mistral_with(more), "config.json");
  };
  // MistralConfig of transformers 5.24
  const LlamaConfig c = load(R"("sliding_window": null)");
  CHECK(c.model_type == ModelType::kMistral);
  CHECK(c.kv_heads() == 8);
  CHECK(c.max_position_embeddings == 131072);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 10000.0);
  CHECK(load(R"("sliding_window": null, "num_key_value_heads": null)").kv_heads() == 16);
  CHECK_THROWS_WITH(load(R"("sliding_window": null, "num_attention_heads": 4)"),
                    ContainsSubstring("num_key_value_heads: is missing, for which transformers "
                                      "takes 8, no divisor of num_attention_heads (4); set it"));
  CHECK(load(R"("sliding_window": null, "num_key_value_heads": 2)").kv_heads() == 2);
}

namespace {

/// Reads what is written of the config, as a new model and over `imported`.
void check_written(const LlamaConfig& c, const std::string& imported) {
  using strata::DType;
  for (const std::string& text :
       {strata::llama_config_text(c, DType::kBF16, std::nullopt),
        strata::llama_config_text(c, DType::kBF16, std::string_view(imported))}) {
    CHECK(strata::parse_llama_config(text, "again") == c);
  }
}

}  // namespace

TEST_CASE("a window of a Mistral holds for all layers, unless the longest rows fit into it") {
  const auto load = [](const std::string& more) {
    return strata::parse_llama_config(mistral_with(more), "config.json");
  };
  const LlamaConfig none = load(R"("sliding_window": null)");
  CHECK(none.window(0) == 0);
  CHECK(load("").sliding_window == 4096);  // as MistralConfig of transformers 5.24 has it
  const LlamaConfig c = load(R"("sliding_window": 512, "max_position_embeddings": 32768)");
  CHECK(c.window(0) == 512);
  CHECK(c.window(1) == 512);
  // its attention does not ask this key
  CHECK(load(R"("sliding_window": 4096, "use_sliding_window": false)").window(1) == 4096);
  check_written(c, mistral_with(R"("sliding_window": null)"));
  check_written(none, mistral_with(""));
  for (const char* wrong : {"\"all\"", "true", "4096.0", "0"}) {
    CHECK_THROWS_WITH(
        load(R"("max_position_embeddings": 4096, "sliding_window": )" + std::string(wrong)),
        ContainsSubstring("sliding_window: expected an integer of at least 1 or null, found"));
  }
  CHECK_THROWS_WITH(load(R"("layer_types": ["full_attention", "full_attention"])"),
                    ContainsSubstring("layer_types: is not read for this family"));
  for (const char* fits : {"4096", "8192"}) {
    CHECK_FALSE(load(R"("max_position_embeddings": 4096, "sliding_window": )" + std::string(fits))
                    .sliding_window.has_value());
  }
}

TEST_CASE("a Phi-3 on whole heads is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return ConfigFile(R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 4)" +
                      (more.empty() ? "" : ", " + more) + "}")
        .load();
  };
  // Phi3Config of transformers 5.24; Phi-4 says all of these keys
  const LlamaConfig c = load(R"("sliding_window": null, "original_max_position_embeddings": 4096,
      "partial_rotary_factor": 1.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "rope_scaling": null)");
  CHECK(c.model_type == ModelType::kPhi3);
  CHECK(c.kv_heads() == 4);
  CHECK(c.max_position_embeddings == 4096);
  CHECK(c.rms_norm_eps == 1e-5);
  CHECK(load("") == c);
  CHECK(load(R"("sliding_window": 2047)").window(1) == 2047);  // Phi-3-mini-4k
}

TEST_CASE("a Phi-3 may rotate a part of each head and have factors for each wavelength") {
  const auto load = [](const std::string& more) {
    return ConfigFile(R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "vocab_size": 100, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 4, "max_position_embeddings": 131072, )" +
                      more + "}")
        .load();
  };
  const std::string factors = R"("short_factor": [1, 1.5], "long_factor": [2, 30])";
  // Phi-4-mini names the scaling, the part and the length like this
  const LlamaConfig c = load(R"("original_max_position_embeddings": 4096,
      "partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope", )" +
                             factors + "}");
  CHECK(c.rotary_width() == 4);
  CHECK(c.rope_scaling->rope_type == RopeType::kLongRope);
  CHECK(c.rope_scaling->long_factor == std::vector{2.0, 30.0});
  CHECK(c.rope_scaling->factor == 32);  // 131072 / 4096
  CHECK(c.context_limit() == 4096);
  // sqrt(1 + ln 32 / ln 4096), of which 32 is 2^5 and 4096 is 2^12
  CHECK(std::abs(c.rope_scaling->magnitude() - std::sqrt(1 + 5.0 / 12)) < 1e-15);
  for (const std::string type : {"longrope", "su", "yarn"}) {  // of which Phi3Config has the first
    CHECK(load(R"("rope_parameters": {"partial_rotary_factor": 0.5, "rope_type": ")" + type +
               "\", " + factors + "}") == c);
  }
  LlamaConfig other = c;
  other.rope_scaling->original_max_position_embeddings = 2048;
  for (const LlamaConfig& written : {c, other}) {
    CHECK(strata::parse_llama_config(
              strata::llama_config_text(written, strata::DType::kBF16, std::nullopt), "again") ==
          written);
  }
  const auto refused = [&](const std::string& more, const std::string& complaint) {
    CHECK_THROWS_WITH(load(more), ContainsSubstring(complaint));
  };
  refused(R"("partial_rotary_factor": 0.4)",
          "partial_rotary_factor: must give an even number of elements, not 3");
  refused(R"("partial_rotary_factor": 1e300)", "partial_rotary_factor: must be at most 1");
  refused(R"("partial_rotary_factor": 1.25)", "partial_rotary_factor: must be at most 1");
  refused(R"("partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.25})",
          "rope_parameters.partial_rotary_factor: is 0.25, but partial_rotary_factor is 0.5");
  refused(R"("rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1]})",
          "rope_scaling.long_factor: is required for longrope");
  refused(R"("rope_scaling": {"type": "longrope", )" + factors + "}",
          "rope_scaling.short_factor: must have a factor for each of the 4 rotated pairs");
  refused(R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope",
             "short_factor": [1, 0], "long_factor": [1, 1]})",
          "rope_scaling.short_factor: must be above 0");
  refused(R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope", )" + factors +
              R"(, "original_max_position_embeddings": 2048})",
          "original_max_position_embeddings: is 4096, but that of the rope scaling is 2048");
  CHECK_THAT(complaint_with(R"("rope_parameters": {"partial_rotary_factor": 0.5})"),
             ContainsSubstring("partial_rotary_factor: must be 1.0 for model_type \"llama\""));
}

TEST_CASE("a LLaMA's config may ask for biases, and those of other families may not") {
  const LlamaConfig c = load_with(R"("attention_bias": true, "mlp_bias": true)");
  CHECK(c.attention_bias);
  CHECK(c.mlp_bias);
  CHECK_FALSE(load_with(R"("attention_bias": null)").attention_bias);
  for (const std::string key : {"attention_bias", "mlp_bias"}) {
    CHECK_THROWS_WITH(strata::parse_llama_config(
                          mistral_with(R"("sliding_window": null, ")" + key + R"(": true)"), "it"),
                      ContainsSubstring(key + ": must be false for model_type \"mistral\""));
  }
}

TEST_CASE("a Qwen2 without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return ConfigFile(R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 32)" +
                      (more.empty() ? "" : ", " + more) + "}")
        .load();
  };
  // Qwen2Config of transformers 5.24; the files of Qwen2.5 have these keys
  const LlamaConfig c = load(R"("use_sliding_window": false, "sliding_window": 4096,
      "max_window_layers": 1, "attention_dropout": 0.0)");
  CHECK(c.model_type == ModelType::kQwen2);
  CHECK(c.kv_heads() == 32);
  CHECK(c.head_size() == 2);
  CHECK(c.max_position_embeddings == 32768);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 10000.0);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(load("") == c);
  CHECK(load(R"("sliding_window": 16, "max_window_layers": 0)") == c);
  CHECK(load(R"("num_key_value_heads": null)").kv_heads() == 32);
  CHECK(load(R"("num_key_value_heads": 2, "tie_word_embeddings": true)").tie_word_embeddings);
  CHECK(load(R"("rope_theta": 1000000.0)").rope_theta == 1e6);
  CHECK(load(R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})").rope_theta ==
        1e6);
  CHECK_THROWS_WITH(load(R"("attention_bias": true)"), ContainsSubstring("attention_bias"));
  CHECK(load(R"("rope_scaling": {"type": "yarn", "factor": 4})").rope_scaling->rope_type ==
        RopeType::kYarn);
  CHECK_THROWS_WITH(load(R"("num_attention_heads": 8)"), ContainsSubstring("takes 32, no divisor"));
}

TEST_CASE("a Qwen3 without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return ConfigFile(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 32)" +
                      (more.empty() ? "" : ", " + more) + "}")
        .load();
  };
  // Qwen3Config of transformers 5.24; the files of Qwen3 have these keys
  const LlamaConfig c = load(R"("attention_bias": false, "use_sliding_window": false,
      "sliding_window": null, "max_window_layers": 2, "rope_scaling": null)");
  CHECK(c.model_type == ModelType::kQwen3);
  CHECK(c.kv_heads() == 32);
  CHECK(c.head_size() == 128);
  CHECK(c.max_position_embeddings == 32768);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(load("") == c);
  CHECK(load(R"("head_dim": 4)").head_size() == 4);
  CHECK(load(R"("attention_bias": true)").attention_bias);
  CHECK_THROWS_WITH(load(R"("mlp_bias": true)"), ContainsSubstring("mlp_bias"));
}

TEST_CASE("a Qwen has windows by layer in all spellings") {
  const auto text_with = [](const std::string& more) {
    return R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 3,
      "num_attention_heads": 32, )" +
           more + "}";
  };
  const auto load = [&](const std::string& more) {
    return strata::parse_llama_config(text_with(more), "config.json");
  };
  const auto windows = [](const LlamaConfig& c) {
    return std::vector{c.window(0), c.window(1), c.window(2)};
  };
  using Windows = std::vector<std::int64_t>;
  const std::string on = R"("use_sliding_window": true, "sliding_window": 16)";
  // Qwen2Config of transformers 5.24 gives windows from layer max_window_layers on, or 28
  CHECK(windows(load(on)) == Windows{0, 0, 0});
  CHECK(windows(load(on + R"(, "max_window_layers": 1)")) == Windows{0, 16, 16});
  CHECK(windows(load(R"("use_sliding_window": true, "max_window_layers": 0)")) ==
        Windows{4096, 4096, 4096});
  const std::string types =
      R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention"])";
  CHECK(windows(load(on + ", \"max_window_layers\": 1, " + types)) == Windows{16, 0, 16});
  // versions of transformers that know no layer_types read the number of layers before the first
  const std::string text = strata::llama_config_text(load(on + R"(, "max_window_layers": 1)"),
                                                     strata::DType::kBF16, std::nullopt);
  CHECK_THAT(text, ContainsSubstring(R"("max_window_layers": 1)"));
  CHECK_THAT(text, ContainsSubstring(R"("use_sliding_window": true)"));
  for (const std::string& more :
       {R"("use_sliding_window": false)" + std::string(), on + R"(, "max_window_layers": 0)",
        on + R"(, "max_window_layers": 2)", on + ", " + types}) {
    CAPTURE(more);
    check_written(load(more), text_with(on + R"(, "max_window_layers": 1)"));
    check_written(load(more), text_with(on + ", " + types));
  }
  const auto refused = [&](const std::string& more, const std::string& complaint) {
    CHECK_THROWS_WITH(load(more), ContainsSubstring(complaint));
  };
  refused(types, "layer_types: has layers with a window, but there is none");
  refused(on + R"(, "layer_types": ["full_attention", "linear_attention", "full_attention"])",
          "layer_types: expected a list of \"full_attention\" and \"sliding_attention\"");
  refused(on + R"(, "layer_types": ["full_attention", "sliding_attention"])",
          "layer_types: must have a kind for each of the 3 layers, not 2");
  refused(on + R"(, "max_window_layers": null)", "max_window_layers: expected an integer");
}

TEST_CASE("a SmolLM3 without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return ConfigFile(R"({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3",
      "vocab_size": 100, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 4,
      "num_attention_heads": 4)" +
                      (more.empty() ? "" : ", " + more) + "}")
        .load();
  };
  // SmolLM3Config of transformers 5.24; the files of SmolLM3-3B have these keys
  const LlamaConfig c = load(R"("attention_bias": false, "mlp_bias": false, "sliding_window": null,
      "use_sliding_window": false, "no_rope_layer_interval": 4, "max_window_layers": 28,
      "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])");
  CHECK(c.model_type == ModelType::kSmolLm3);
  CHECK(c.kv_heads() == 4);
  CHECK(c.max_position_embeddings == 32768);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 2e6);
  CHECK(c.tie_word_embeddings);
  CHECK(load("") == c);
  CHECK_FALSE(load(R"("tie_word_embeddings": false)").tie_word_embeddings);
  CHECK(load(R"("rope_theta": 5000000.0)").rope_theta == 5e6);
  CHECK(load(R"("attention_bias": true, "mlp_bias": true)").mlp_bias);
  const auto rotate = [](const LlamaConfig& config) {
    return std::vector<bool>{config.rotates(0), config.rotates(1), config.rotates(2),
                             config.rotates(3)};
  };
  CHECK(rotate(c) == std::vector{true, true, true, false});
  CHECK(rotate(load(R"("no_rope_layer_interval": 3)")) == std::vector{true, true, false, true});
  CHECK(rotate(load(R"("no_rope_layer_interval": 3, "no_rope_layers": [0, 1, 1, 0, 1])")) ==
        std::vector{false, true, true, false});
  const LlamaConfig listed = load(R"("no_rope_layers": [1, 1, 1, 1])");
  const std::string text = strata::llama_config_text(listed, strata::DType::kBF16, std::nullopt);
  CHECK(strata::parse_llama_config(text, "again") == listed);
  CHECK_THAT(text, !ContainsSubstring("1.0,"));  // transformers takes integers alone
  const auto refused = [&](const std::string& more, const std::string& complaint) {
    CHECK_THROWS_WITH(load(more), ContainsSubstring(complaint));
  };
  refused(R"("use_sliding_window": true)", "use_sliding_window");
  refused(R"("no_rope_layers": [1, 0])", "no_rope_layers: must have a number for each of the 4");
  refused(R"("no_rope_layers": [1, 0, 2, 1])", "no_rope_layers: must be 1 or 0");
  refused(R"("no_rope_layer_interval": 0)", "no_rope_layer_interval: expected an integer");
  CHECK_THAT(complaint_with(R"("no_rope_layers": [1, 0])"),
             ContainsSubstring("no_rope_layers: only a SmolLM3 has layers that do not rotate"));
}

TEST_CASE("class and type of a model must be those of one family") {
  const auto load = [](const std::string& text) {
    return ConfigFile(R"({"vocab_size": 100, "hidden_size": 8, "intermediate_size": 12,
                          "num_hidden_layers": 2, "num_attention_heads": 4, )" +
                      text + "}")
        .load();
  };
  CHECK_NOTHROW(load(R"("architectures": ["LLaMAForCausalLM"], "model_type": "llama")"));
  CHECK_NOTHROW(load(R"("architectures": ["LlamaForCausalLM"])"));
  CHECK_NOTHROW(load(R"("model_type": "llama")"));
  for (const char* text :
       {R"("architectures": ["MistralForCausalLM"], "model_type": "llama")",
        R"("architectures": ["LlamaForCausalLM"], "model_type": "mistral")",
        R"("architectures": ["LlamaForCausalLM", "MistralForCausalLM"])", R"("use_cache": true)"}) {
    CHECK_THROWS_WITH(
        load(text),
        ContainsSubstring("architectures: expected LlamaForCausalLM with model_type \"llama\" or "
                          "MistralForCausalLM with model_type \"mistral\""));
  }
}

TEST_CASE("a Hugging Face config nests as deep as texts may, and no deeper") {
  CHECK_THAT(complaint_with("\"x\": " + std::string(100'000, '[') + std::string(100'000, ']')),
             ContainsSubstring("more than 64 levels deep"));
}

TEST_CASE("a Hugging Face config that is missing or no JSON is named") {
  CHECK_THROWS_AS(strata::load_llama_config("no/such/config.json"), strata::IoError);
  CHECK_THROWS_WITH(ConfigFile("[]").load(), ContainsSubstring("not a JSON object"));
  CHECK_THROWS_WITH(ConfigFile("{").load(),
                    ContainsSubstring("not valid JSON: parse error at line 1"));
}

namespace {

using strata::DType;
using strata::llama_config_text;
using strata::parse_llama_config;

LlamaConfig stretched() {
  LlamaConfig c = small();
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.max_position_embeddings = 131072;
  c.rope_theta = 500000.0;
  c.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3,
                               .factor = 32.0,
                               .low_freq_factor = 1.5,
                               .high_freq_factor = 4.25,
                               .original_max_position_embeddings = 4096};
  c.rms_norm_eps = 1e-6;
  c.tie_word_embeddings = true;
  c.initializer_range = 0.01;
  return c;
}

}  // namespace

TEST_CASE("a new config.json is read as the model that it was written of") {
  const std::pair<ModelType, const char*> classes[] = {
      {ModelType::kLlama, R"("LlamaForCausalLM")"},
      {ModelType::kMistral, R"("MistralForCausalLM")"},
      {ModelType::kPhi3, R"("Phi3ForCausalLM")"},
      {ModelType::kQwen2, R"("Qwen2ForCausalLM")"},
      {ModelType::kQwen3, R"("Qwen3ForCausalLM")"},
      {ModelType::kSmolLm3, R"("SmolLM3ForCausalLM")"}};
  for (const auto& [type, name] : classes) {
    for (LlamaConfig c : {small(), stretched()}) {
      c.model_type = type;
      const std::string text = llama_config_text(c, DType::kBF16, std::nullopt);
      if (type != ModelType::kLlama && type != ModelType::kPhi3) {
        c.num_key_value_heads = c.kv_heads();
      }
      if (type == ModelType::kQwen3) c.head_dim = c.head_size();
      CHECK(parse_llama_config(text, "config.json") == c);
      CHECK_THAT(text, ContainsSubstring(R"("torch_dtype": "bfloat16")"));
      CHECK_THAT(text, ContainsSubstring(name));
    }
  }
  LlamaConfig biased = small();
  biased.attention_bias = true;
  CHECK(parse_llama_config(llama_config_text(biased, DType::kF32, std::nullopt), "config.json") ==
        biased);
  CHECK_THAT(llama_config_text(small(), DType::kF32, std::nullopt),
             ContainsSubstring(R"("torch_dtype": "float32")"));
  LlamaConfig unscaled = small();
  unscaled.rope_scaling.emplace();  // of type default
  const std::string text = llama_config_text(unscaled, DType::kF64, std::nullopt);
  CHECK(parse_llama_config(text, "config.json") == small());
}

TEST_CASE("an imported config.json keeps every key but the dtype of its weights") {
  const std::string imported = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 11, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 3,
    "num_attention_heads": 4, "rms_norm_eps": 1e-05, "bos_token_id": 9, "eos_token_id": [8, 7],
    "transformers_version": "4.40.1", "of_somebody": {"else": [1, null]},)";
  const auto written = [&](const std::string& more, DType weight) {
    const std::string text = imported + more + "}";
    return llama_config_text(parse_llama_config(text, "config.json"), weight, text);
  };
  const std::string old = written(R"("torch_dtype": "float16")", DType::kBF16);
  for (const char* kept : {R"("bos_token_id": 9)", R"("transformers_version": "4.40.1")",
                           R"("of_somebody": {)", R"("torch_dtype": "bfloat16")"}) {
    CHECK_THAT(old, ContainsSubstring(kept));
  }
  CHECK(parse_llama_config(old, "config.json") == small());
  CHECK(old.find("\"dtype\"") == std::string::npos);
  CHECK(old.find("initializer_range") == std::string::npos);

  const std::string recent = written(
      R"("dtype": "float16", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6})",
      DType::kF32);
  CHECK_THAT(recent, ContainsSubstring(R"("dtype": "float32")"));
  CHECK_THAT(recent, ContainsSubstring("rope_parameters"));
  CHECK(recent.find("torch_dtype") == std::string::npos);
  CHECK(parse_llama_config(recent, "config.json").rope_theta == 1e6);
}

TEST_CASE("what a run changed of an imported model is changed in its config.json") {
  const std::string before = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "other": 5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}})";
  for (const LlamaConfig& c : {small(), stretched()}) {
    const std::string text = llama_config_text(c, DType::kBF16, before);
    CHECK(parse_llama_config(text, "config.json") == c);
    CHECK_THAT(text, ContainsSubstring(R"("other": 5)"));
    const std::string again = llama_config_text(small(), DType::kBF16, text);
    CHECK(parse_llama_config(again, "config.json") == small());
  }
  const std::string mistral = mistral_with(R"("sliding_window": null, "other": 5)");
  for (LlamaConfig c : {small(), stretched()}) {
    c.model_type = ModelType::kMistral;
    const std::string text = llama_config_text(c, DType::kBF16, mistral);
    LlamaConfig read = c;
    read.num_key_value_heads = c.kv_heads();
    CHECK(parse_llama_config(text, "config.json") == read);
    CHECK_THAT(text, ContainsSubstring("MistralForCausalLM") && ContainsSubstring("\"mistral\""));
    CHECK_THAT(text, ContainsSubstring(R"("sliding_window": null)"));
  }
  CHECK_THROWS_AS(llama_config_text(small(), DType::kBF16, ""), ConfigError);
  CHECK_THROWS_AS(llama_config_text(small(), DType::kBF16, R"({"model_type": "gpt2"})"),
                  ConfigError);
}
