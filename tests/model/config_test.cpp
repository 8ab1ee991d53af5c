// Tests parameter counts against published models, and that the config.json of a LLaMA is read
// right or refused by key, whichever version of transformers wrote it.

#include "strata/model/config.h"

#include <optional>
#include <string>

#include "model/config_texts.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

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
  LlamaConfig c = small_model();
  CHECK(c.head_size() == 2);
  CHECK(c.kv_heads() == 4);
  c.head_dim = 6;
  c.num_key_value_heads = 1;
  CHECK(c.head_size() == 6);
  CHECK(c.kv_heads() == 1);
}

TEST_CASE("an impossible architecture is refused by key") {
  CHECK(complaint_about(small_model()) == "no error");
  LlamaConfig c;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.vocab_size: is required"));
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_attention_heads: is required"));
  c = small_model();
  c.num_key_value_heads = 3;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_key_value_heads: must divide"));
  c = small_model();
  c.num_attention_heads = 3;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.num_attention_heads: must divide"));
  c = small_model();
  c.num_attention_heads = 8;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.head_dim: must be even"));
  c = small_model();
  c.hidden_size = -8;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.hidden_size: must be from 1"));
  c = small_model();
  c.rms_norm_eps = 0;
  CHECK_THAT(complaint_about(c), ContainsSubstring("model.rms_norm_eps"));
  c = small_model();
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
    return parse_llama_config(llama_config_text(config, DType::kBF16, std::nullopt), "again");
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
  CHECK_THROWS_WITH(parse(R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4"})"),
                    ContainsSubstring("Gemma4ForCausalLM"));
}

TEST_CASE("of quantized weights those of bitsandbytes in nf4 are read, others refused by format") {
  const std::string nf4 = R"("quantization_config": {"quant_method": "bitsandbytes",
    "load_in_4bit": true, "load_in_8bit": false, "llm_int8_threshold": 6.0)";
  CHECK(load_with(nf4 + "}") == load_with(R"("quantization_config": null)"));
  CHECK(load_with(nf4 + R"(, "bnb_4bit_quant_type": "nf4"})") ==
        load_with(R"("quantization_config": null)"));
  const auto refused = [](const std::string& section, const std::string& found) {
    CHECK_THAT(
        complaint_with(R"("quantization_config": )" + section),
        ContainsSubstring("use the bf16, f16 or f32 original, found ") && ContainsSubstring(found));
  };
  refused(nf4.substr(nf4.find('{')) + R"(, "bnb_4bit_quant_type": "fp4"})", R"("fp4")");
  refused(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", R"("load_in_8bit":true)");
  refused(R"({"bits": 4, "group_size": 128, "quant_method": "gptq"})",
          R"({"quant_method":"gptq"})");
  refused(R"({"quant_method": ["bitsandbytes"], "load_in_4bit": true})", R"(["bitsandbytes"])");
  refused(R"(["bitsandbytes"])", R"(["bitsandbytes"])");
  refused("true", "true");
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

TEST_CASE("class and type of a model must be those of one family") {
  const auto load = [](const std::string& text) {
    return parse(R"({"vocab_size": 100, "hidden_size": 8, "intermediate_size": 12,
                          "num_hidden_layers": 2, "num_attention_heads": 4, )" +
                 text + "}");
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

TEST_CASE("a config.json is read by its name, and named if it is missing or no JSON") {
  const ScratchFolder folder;
  const std::string file =
      folder.write("config.json", llama_config_text(small_model(), DType::kF32, std::nullopt));
  CHECK(load_llama_config(file) == small_model());
  CHECK_THROWS_AS(load_llama_config(folder.file("nothing.json")), IoError);
  CHECK_THROWS_WITH(load_llama_config(folder.write("list.json", "[]")),
                    ContainsSubstring("list.json") && ContainsSubstring("not a JSON object"));
  CHECK_THROWS_WITH(
      load_llama_config(folder.write("half.json", "{")),
      ContainsSubstring("half.json") && ContainsSubstring("not valid JSON: parse error at line 1"));
}

}  // namespace strata::test
