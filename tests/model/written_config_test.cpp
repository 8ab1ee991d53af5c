// Tests the config.json that is written beside weights: of a new model, and over that of an
// imported one, of which every other key stays.

#include <optional>
#include <string>
#include <utility>

#include "model/config_texts.h"
#include "strata/base/error.h"
#include "strata/model/config.h"
#include "support/catch.h"

namespace strata::test {
namespace {

LlamaConfig stretched() {
  LlamaConfig c = small_model();
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
    for (LlamaConfig c : {small_model(), stretched()}) {
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
  LlamaConfig biased = small_model();
  biased.attention_bias = true;
  CHECK(parse_llama_config(llama_config_text(biased, DType::kF32, std::nullopt), "config.json") ==
        biased);
  CHECK_THAT(llama_config_text(small_model(), DType::kF32, std::nullopt),
             ContainsSubstring(R"("torch_dtype": "float32")"));
  LlamaConfig unscaled = small_model();
  unscaled.rope_scaling.emplace();  // of type default
  const std::string text = llama_config_text(unscaled, DType::kF64, std::nullopt);
  CHECK(parse_llama_config(text, "config.json") == small_model());
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
  CHECK(parse_llama_config(old, "config.json") == small_model());
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

TEST_CASE("weights that were in 4 bits are written as numbers, which their config.json says") {
  const std::string imported = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 11,
    "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 3, "num_attention_heads": 4,
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})";
  const LlamaConfig config = parse_llama_config(imported, "config.json");
  CHECK_THAT(llama_config_text(config, DType::kBF16, imported),
             !ContainsSubstring("quantization_config"));
}

TEST_CASE("what a run changed of an imported model is changed in its config.json") {
  const std::string before = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "other": 5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}})";
  for (const LlamaConfig& c : {small_model(), stretched()}) {
    const std::string text = llama_config_text(c, DType::kBF16, before);
    CHECK(parse_llama_config(text, "config.json") == c);
    CHECK_THAT(text, ContainsSubstring(R"("other": 5)"));
    const std::string again = llama_config_text(small_model(), DType::kBF16, text);
    CHECK(parse_llama_config(again, "config.json") == small_model());
  }
  const std::string mistral = mistral_with(R"("sliding_window": null, "other": 5)");
  for (LlamaConfig c : {small_model(), stretched()}) {
    c.model_type = ModelType::kMistral;
    const std::string text = llama_config_text(c, DType::kBF16, mistral);
    LlamaConfig read = c;
    read.num_key_value_heads = c.kv_heads();
    CHECK(parse_llama_config(text, "config.json") == read);
    CHECK_THAT(text, ContainsSubstring("MistralForCausalLM") && ContainsSubstring("\"mistral\""));
    CHECK_THAT(text, ContainsSubstring(R"("sliding_window": null)"));
  }
  CHECK_THROWS_AS(llama_config_text(small_model(), DType::kBF16, ""), ConfigError);
  CHECK_THROWS_AS(llama_config_text(small_model(), DType::kBF16, R"({"model_type": "gpt2"})"),
                  ConfigError);
}

}  // namespace strata::test
