// Tests that the config.json of a Mistral, a Phi-3, a Qwen and a SmolLM3 is read with the defaults
// of its class, refused by key, and written again as it was meant. family_config_test.cpp has the
// families with more keys of their own.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_texts.h"
#include "strata/base/error.h"
#include "strata/model/config.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Reads what is written of the config, as a new model and over `imported`.
void check_written(const LlamaConfig& c, const std::string& imported) {
  for (const std::string& text : {llama_config_text(c, DType::kBF16, std::nullopt),
                                  llama_config_text(c, DType::kBF16, std::string_view(imported))}) {
    CHECK(parse_llama_config(text, "again") == c);
  }
}

}  // namespace

TEST_CASE("a Mistral without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return parse_llama_config(mistral_with(more), "config.json");
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

TEST_CASE("a window of a Mistral holds for all layers, unless the longest rows fit into it") {
  const auto load = [](const std::string& more) {
    return parse_llama_config(mistral_with(more), "config.json");
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
    return parse(R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 4)" +
                 (more.empty() ? "" : ", " + more) + "}");
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
    return parse(R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "vocab_size": 100, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 4, "max_position_embeddings": 131072, )" +
                 more + "}");
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
    CHECK(parse_llama_config(llama_config_text(written, DType::kBF16, std::nullopt), "again") ==
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
    CHECK_THROWS_WITH(
        parse_llama_config(mistral_with(R"("sliding_window": null, ")" + key + R"(": true)"), "it"),
        ContainsSubstring(key + ": must be false for model_type \"mistral\""));
  }
}

TEST_CASE("a Qwen2 without a window is read with the defaults of its own class") {
  const auto load = [](const std::string& more) {
    return parse(R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 32)" +
                 (more.empty() ? "" : ", " + more) + "}");
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
    return parse(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 32)" +
                 (more.empty() ? "" : ", " + more) + "}");
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
    return parse_llama_config(text_with(more), "config.json");
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
  const std::string text =
      llama_config_text(load(on + R"(, "max_window_layers": 1)"), DType::kBF16, std::nullopt);
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
    return parse(R"({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3",
      "vocab_size": 100, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 4,
      "num_attention_heads": 4)" +
                 (more.empty() ? "" : ", " + more) + "}");
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
  const std::string text = llama_config_text(listed, DType::kBF16, std::nullopt);
  CHECK(parse_llama_config(text, "again") == listed);
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

}  // namespace strata::test
