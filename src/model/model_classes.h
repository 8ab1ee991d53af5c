// Lists the classes of transformers whose models strata reads and writes, with what transformers
// takes where keys are missing.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "strata/model/config.h"

namespace strata {

/// When programs heed a model's sliding_window.
enum class WindowSwitch : std::uint8_t {
  kNone,         ///< always
  kOnUnlessOff,  ///< unless use_sliding_window is false
  kOffUnlessOn,  ///< if use_sliding_window is true
};

/// A class, and the defaults of its keys.
struct ModelClass {
  std::string_view name;
  ModelType type{};
  std::string_view models;  ///< which models of the class strata trains
  std::int64_t max_position_embeddings = 0;
  std::optional<std::int64_t> vocab_size{};           ///< absent: files say it
  std::optional<std::int64_t> num_attention_heads{};  ///< absent: files say it
  double rms_norm_eps = 1e-6;
  std::optional<std::int64_t> num_key_value_heads{};  ///< absent: as many as heads
  std::optional<std::int64_t> head_dim{};             ///< absent: hidden_size / heads
  std::optional<std::int64_t> sliding_window{};       ///< absent: none
  std::optional<std::int64_t> original_length{};      ///< absent: max_position_embeddings
  WindowSwitch window_switch = WindowSwitch::kNone;
  /// Every so many layers one has no window; 0: what layer_types does not say, all have it.
  std::int64_t window_pattern = 0;
  /// layer_types has no switch beside it, and transformers makes masks of a window in any case.
  bool needs_window = false;
  bool rope_by_layer = false;  ///< layers with a window have a rotary embedding of their own
  double rope_theta = 10000;
  double partial_rotary_factor = 1;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  std::optional<double> attention_multiplier{};         ///< absent: 1 / sqrt(D)
  std::optional<std::int64_t> query_pre_attn_scalar{};  ///< absent: D
  std::optional<double> attn_logit_softcapping{};
  std::optional<double> final_logit_softcapping{};
  double dropout = 0;  ///< of attention and of what is added to the residual stream
  /// What a new config.json says beside what those of all families say.
  std::string_view new_keys = "{}";

  [[nodiscard]] std::string_view type_name() const { return enum_name(kModelTypeNames, type); }
};
/// The theta of all layers of an OLMo 3: transformers takes it for those with a window, whatever a
/// file says outside of rope_parameters.
inline constexpr double kThetaOfOlmo3 = 500000;
/// What a new Gemma 2 or 3 says.
inline constexpr std::string_view kNewGemma =
    R"({"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "pad_token_id": null})";
/// A pad_token_id of null stands where transformers takes an id that a vocabulary may lack.
inline constexpr ModelClass kModelClasses[] = {
    {.name = "LlamaForCausalLM",
     .type = ModelType::kLlama,
     .models = "Llama 1 to 3.3, TinyLlama, SmolLM2, Yi, DeepSeek LLM and others of the class",
     .max_position_embeddings = 2048,
     .window_switch = WindowSwitch::kOnUnlessOff,
     .new_keys = R"({"pretraining_tp": 1})"},
    {.name = "MistralForCausalLM",
     .type = ModelType::kMistral,
     .models = "Mistral 7B, Nemo, Small 3",
     .max_position_embeddings = 131072,
     .num_key_value_heads = 8,
     .sliding_window = 4096,
     .new_keys = R"({"sliding_window": null})"},
    {.name = "Phi3ForCausalLM",
     .type = ModelType::kPhi3,
     .models = "Phi-4, Phi-4-mini, Phi-3",
     .max_position_embeddings = 4096,
     .rms_norm_eps = 1e-5,
     .original_length = 4096,
     .new_keys =
         R"({"sliding_window": null, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "pad_token_id": null})"},
    {.name = "Qwen2ForCausalLM",
     .type = ModelType::kQwen2,
     .models = "Qwen2 and Qwen2.5, DeepSeek-R1-Distill-Qwen",
     .max_position_embeddings = 32768,
     .num_key_value_heads = 32,
     .sliding_window = 4096,
     .window_switch = WindowSwitch::kOffUnlessOn,
     .new_keys = R"({"use_sliding_window": false})"},
    {.name = "Qwen3ForCausalLM",
     .type = ModelType::kQwen3,
     .models = "the dense models, 0.6B to 32B",
     .max_position_embeddings = 32768,
     .num_key_value_heads = 32,
     .head_dim = 128,
     .sliding_window = 4096,
     .window_switch = WindowSwitch::kOffUnlessOn,
     .new_keys = R"({"use_sliding_window": false})"},
    {.name = "GraniteForCausalLM",
     .type = ModelType::kGranite,
     .models = "the dense models of Granite 3 and later, without biases",
     .max_position_embeddings = 2048,
     .attention_multiplier = 1.0},
    {.name = "Olmo2ForCausalLM",
     .type = ModelType::kOlmo2,
     .models = "OLMo 2, 1B to 32B",
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-5,
     .new_keys = R"({"pad_token_id": null})"},
    {.name = "SeedOssForCausalLM",
     .type = ModelType::kSeedOss,
     .models = "Seed-OSS 36B, without dropout",
     .max_position_embeddings = 524288,
     .num_key_value_heads = 8,
     .head_dim = 128,
     .attention_bias = true,
     .dropout = 0.1,
     .new_keys = R"({"residual_dropout": 0.0, "pad_token_id": null})"},
    {.name = "GemmaForCausalLM",
     .type = ModelType::kGemma,
     .models = "the first Gemma, 2B and 7B, also CodeGemma",
     .max_position_embeddings = 8192,
     .num_key_value_heads = 16,
     .head_dim = 256,
     .tie_word_embeddings = true,
     .new_keys = R"({"hidden_act": "gelu_pytorch_tanh", "pad_token_id": null})"},
    {.name = "SmolLM3ForCausalLM",
     .type = ModelType::kSmolLm3,
     .models = "SmolLM3 without a window",
     .max_position_embeddings = 32768,
     .num_key_value_heads = 4,
     .window_switch = WindowSwitch::kOffUnlessOn,
     .rope_theta = 2e6,
     .tie_word_embeddings = true,
     .new_keys = R"({"use_sliding_window": false, "pad_token_id": null})"},
    {.name = "Glm4ForCausalLM",
     .type = ModelType::kGlm4,
     .models = "GLM-4-0414 and GLM-Z1, 9B and 32B",
     .max_position_embeddings = 131072,
     .rms_norm_eps = 1.5625e-7,
     .num_key_value_heads = 2,
     .head_dim = 128,
     .partial_rotary_factor = 0.5,
     .attention_bias = true,
     .new_keys = R"({"pad_token_id": null})"},
    {.name = "Exaone4ForCausalLM",
     .type = ModelType::kExaone4,
     .models = "EXAONE 4.0, 1.2B and 32B",
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-5,
     .num_key_value_heads = 32,
     .sliding_window = 4096,
     .window_pattern = 4,
     .needs_window = true},
    {.name = "Olmo3ForCausalLM",
     .type = ModelType::kOlmo3,
     .models = "OLMo 3, 7B and 32B",
     .max_position_embeddings = 2048,
     .rms_norm_eps = 1e-5,
     .sliding_window = 4096,
     .window_pattern = 4,
     .needs_window = true,
     .rope_by_layer = true,
     .rope_theta = kThetaOfOlmo3,
     .new_keys = R"({"pad_token_id": null})"},
    {.name = "Gemma2ForCausalLM",
     .type = ModelType::kGemma2,
     .models = "Gemma 2, 2B to 27B",
     .max_position_embeddings = 8192,
     .num_key_value_heads = 4,
     .head_dim = 256,
     .sliding_window = 4096,
     .window_pattern = 2,
     .needs_window = true,
     .tie_word_embeddings = true,
     .query_pre_attn_scalar = 256,
     .attn_logit_softcapping = 50.0,
     .final_logit_softcapping = 30.0,
     .new_keys = kNewGemma},
    {.name = "Gemma3ForCausalLM",
     .type = ModelType::kGemma3,
     .models = "Gemma 3, 270M and 1B, and text parts that are saved by themselves",
     .max_position_embeddings = 131072,
     .vocab_size = 262208,
     .num_attention_heads = 8,
     .num_key_value_heads = 4,
     .head_dim = 256,
     .sliding_window = 4096,
     .window_pattern = 6,
     .needs_window = true,
     .rope_by_layer = true,
     .rope_theta = 1e6,
     .tie_word_embeddings = true,
     .query_pre_attn_scalar = 256,
     .new_keys = kNewGemma},
    {.name = "MinistralForCausalLM",
     .type = ModelType::kMinistral,
     .models = "Ministral 8B of October 2024",
     .max_position_embeddings = 131072,
     .num_key_value_heads = 8,
     .sliding_window = 4096,
     .needs_window = true,
     .new_keys = R"({"pad_token_id": null})"},
    {.name = "Ministral3ForCausalLM",
     .type = ModelType::kMinistral3,
     .models = "Ministral 3 in bf16, 3B to 14B, for rows of up to 16,384 tokens",
     .max_position_embeddings = 262144,
     .vocab_size = 131072,
     .num_attention_heads = 32,
     .rms_norm_eps = 1e-5,
     .num_key_value_heads = 8,
     .head_dim = 128,
     .rope_theta = 1e6,
     .new_keys = R"({"pad_token_id": null})"},
};
static_assert(std::size(kModelClasses) == std::size(kModelTypeNames));

/// Returns the class of the family.
[[nodiscard]] inline const ModelClass& model_class_of(ModelType type) {
  return *std::ranges::find(kModelClasses, type, &ModelClass::type);
}

}  // namespace strata
