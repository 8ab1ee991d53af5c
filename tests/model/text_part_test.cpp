// Tests that of a model that also takes images the text part is read, and leaves as a model of its
// own, with what the files of Gemma 3 4B and of Mistral Small 3.1 leave out.

#include <optional>
#include <string>

#include "model/config_texts.h"
#include "strata/base/error.h"
#include "strata/model/config.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns a config.json of the class and type with this text_config, and `more` beside it.
std::string multimodal_text(const std::string& model_class, const std::string& type,
                            const std::string& text_config, const std::string& more = "") {
  return R"({"architectures": [")" + model_class + R"("], "model_type": ")" + type +
         R"(", "vision_config": {"hidden_size": 32}, "eos_token_id": [1, 106], )" + more +
         R"("text_config": )" + text_config + "}";
}

}  // namespace

TEST_CASE("the text part of a Gemma 3 is read with the defaults of its class") {
  const auto file = [](const std::string& more, const std::string& beside = "") {
    return multimodal_text("Gemma3ForConditionalGeneration", "gemma3",
                           R"({"hidden_size": 64, "intermediate_size": 40, "num_hidden_layers": 7,
                       "model_type": "gemma3_text", "sliding_window": 16,
                       "rope_scaling": {"factor": 8.0, "rope_type": "linear"})" +
                               more + "}",
                           beside);
  };
  const LlamaConfig c = parse(file(""));
  CHECK(c.model_type == ModelType::kGemma3);
  CHECK(c.vocab_size == 262208);
  CHECK(c.num_attention_heads == 8);
  CHECK(c.kv_heads() == 4);
  CHECK(c.head_size() == 256);
  CHECK(c.hidden_size == 64);
  CHECK(c.window(4) == 16);
  CHECK(c.window(5) == 0);
  CHECK(c.rope_scaling.value().factor == 8);
  const std::string written = llama_config_text(c, DType::kBF16, file(""));
  CHECK(parse(written) == c);
  CHECK_THAT(written, ContainsSubstring("Gemma3ForCausalLM") && ContainsSubstring("gemma3_text") &&
                          ContainsSubstring("106") && !ContainsSubstring("vision_config"));
  CHECK_THROWS_WITH(parse(file("", R"("quantization_config": {"bits": 4}, )")),
                    ContainsSubstring("quantization_config"));
  CHECK_THROWS_WITH(
      parse(file(R"(, "tie_word_embeddings": true)", R"("tie_word_embeddings": false, )")),
      ContainsSubstring("tie_word_embeddings: is false, but that of text_config"));
  CHECK_THROWS_WITH(parse(multimodal_text("Gemma3ForConditionalGeneration", "gemma3", "null")),
                    ContainsSubstring("text_config: expected an object"));
}

TEST_CASE("the text part of a newer Mistral is read if it is a Mistral or a Ministral 3") {
  const auto file = [](const std::string& type) {
    return multimodal_text("Mistral3ForConditionalGeneration", "mistral3",
                           R"({"hidden_size": 64, "intermediate_size": 40, "num_hidden_layers": 2,
                       "vocab_size": 100, "num_attention_heads": 8, "sliding_window": null,
                       "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
                       "model_type": ")" +
                               type + "\"}");
  };
  CHECK(parse(file("mistral")).model_type == ModelType::kMistral);
  const LlamaConfig third = parse(file("ministral3"));
  CHECK(third.model_type == ModelType::kMinistral3);
  const std::string written = llama_config_text(third, DType::kBF16, file("ministral3"));
  CHECK(parse(written) == third);
  CHECK_THAT(written, ContainsSubstring("Ministral3ForCausalLM"));
  CHECK_THROWS_WITH(parse(file("mistral4")), ContainsSubstring("model_type \"mistral4\""));
}

}  // namespace strata::test
