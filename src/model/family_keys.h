// Says which families have a key of their config.json that others lack, so that reading, writing
// and the rules of a config agree.

#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "strata/model/config.h"

namespace strata {

/// A key of LlamaConfig, and the families whose models may say something else than its default.
struct FamilyKey {
  std::string_view key;
  std::initializer_list<ModelType> families;
};
inline constexpr std::initializer_list<ModelType> kWithAttentionBias = {
    ModelType::kLlama,  ModelType::kQwen3,   ModelType::kOlmo2, ModelType::kSeedOss,
    ModelType::kGemma,  ModelType::kSmolLm3, ModelType::kGlm4,  ModelType::kOlmo3,
    ModelType::kGemma2, ModelType::kGemma3};
inline constexpr std::initializer_list<ModelType> kWithAttentionOutBias = {ModelType::kSeedOss};
inline constexpr std::initializer_list<ModelType> kWithMlpBias = {
    ModelType::kLlama, ModelType::kSeedOss, ModelType::kSmolLm3};
inline constexpr std::initializer_list<ModelType> kWithMultipliers = {ModelType::kGranite};
inline constexpr std::initializer_list<ModelType> kWithPartialRotation = {ModelType::kPhi3,
                                                                          ModelType::kGlm4};
inline constexpr std::initializer_list<ModelType> kWithLayersUnrotated = {ModelType::kSmolLm3};
inline constexpr std::initializer_list<ModelType> kWithWindow = {
    ModelType::kMistral, ModelType::kPhi3,    ModelType::kQwen2,
    ModelType::kQwen3,   ModelType::kExaone4, ModelType::kOlmo3,
    ModelType::kGemma2,  ModelType::kGemma3,  ModelType::kMinistral};
inline constexpr std::initializer_list<ModelType> kWithWindowByLayer = {
    ModelType::kQwen2,  ModelType::kQwen3,  ModelType::kExaone4,  ModelType::kOlmo3,
    ModelType::kGemma2, ModelType::kGemma3, ModelType::kMinistral};
inline constexpr std::initializer_list<ModelType> kWithScaledQueries = {ModelType::kMinistral3};
inline constexpr std::initializer_list<ModelType> kWithTwoThetas = {ModelType::kGemma3};
inline constexpr std::initializer_list<ModelType> kWithScoreCap = {ModelType::kGemma2};
inline constexpr std::initializer_list<ModelType> kWithLogitsCap = {ModelType::kGemma2,
                                                                    ModelType::kGemma3};
inline constexpr FamilyKey kFamilyKeys[] = {
    {"attention_bias", kWithAttentionBias},        {"mlp_bias", kWithMlpBias},
    {"embedding_multiplier", kWithMultipliers},    {"residual_multiplier", kWithMultipliers},
    {"attention_multiplier", kWithMultipliers},    {"logits_scaling", kWithMultipliers},
    {"attention_out_bias", kWithAttentionOutBias}, {"partial_rotary_factor", kWithPartialRotation},
    {"no_rope_layers", kWithLayersUnrotated},      {"sliding_window", kWithWindow},
    {"layer_types", kWithWindowByLayer},           {"rope_local_base_freq", kWithTwoThetas},
    {"query_pre_attn_scalar", kWithLogitsCap},     {"attn_logit_softcapping", kWithScoreCap},
    {"final_logit_softcapping", kWithLogitsCap},   {"llama_4_scaling_beta", kWithScaledQueries}};

/// Returns whether it is a Gemma of any kind.
[[nodiscard]] inline bool is_gemma(ModelType type) {
  return type == ModelType::kGemma || type == ModelType::kGemma2 || type == ModelType::kGemma3;
}
/// Returns whether only some families have this key.
[[nodiscard]] inline bool is_family_key(std::string_view key) {
  return std::ranges::count(kFamilyKeys, key, &FamilyKey::key) > 0;
}
/// Returns whether the config.json of the family has this key of a LlamaConfig.
[[nodiscard]] inline bool has_key(ModelType type, std::string_view key) {
  const auto* const found = std::ranges::find(kFamilyKeys, key, &FamilyKey::key);
  return found == std::end(kFamilyKeys) || std::ranges::count(found->families, type) > 0;
}

}  // namespace strata
