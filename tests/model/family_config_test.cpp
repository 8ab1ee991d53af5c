// Tests that config.json files of families with keys of their own are read with the defaults of
// their classes in transformers 5.24, refused by key, and written again as they were meant.

#include <cmath>
#include <optional>
#include <string>

#include "strata/base/error.h"
#include "strata/model/config.h"
#include "support/catch.h"

namespace strata {
namespace {

/// Returns the text of a config.json of 4 heads and of the family's class, plus `more` keys.
std::string text_of(const std::string& model_class, const std::string& type,
                    const std::string& more) {
  return R"({"architectures": [")" + model_class + R"("], "model_type": ")" + type + R"(",
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4)" +
         (more.empty() ? "" : ", " + more) + "}";
}

LlamaConfig parse(const std::string& text) { return parse_llama_config(text, "config.json"); }

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

}  // namespace strata
