// Lists the keys of a config.json that would change what a model computes, and of which strata
// takes one value alone.

#pragma once

#include <string_view>

#include "family_keys.h"
#include "strata/model/config.h"

namespace strata {

/// Says how weights were rounded to fewer bits. One format is read beside what kFixedKeys says.
inline constexpr std::string_view kQuantization = "quantization_config";

/// A key of which strata computes one value only in families that do not have it (has_key()), which
/// is also what a missing key stands for.
struct FixedKey {
  std::string_view key;
  std::string_view value;  ///< as JSON; null and false always do
  std::string_view why;
};
inline constexpr FixedKey kFixedKeys[] = {
    {"qkv_bias", "false", "biases are known by attention_bias and mlp_bias alone"},
    {"hidden_act", "\"silu\"", "only \"silu\" is supported"},
    {"attention_dropout", "0", "strata drops nothing out; set it to 0 to train without"},
    {"hidden_dropout", "0", "strata drops nothing out; set it to 0 to train without"},
    {"resid_pdrop", "0", "strata drops nothing out; set it to 0 to train without"},
    {"embd_pdrop", "0", "strata drops nothing out; set it to 0 to train without"},
    {"residual_dropout", "0", "strata drops nothing out; set it to 0 to train without"},
    {"use_bidirectional_attention", "false", "only causal attention is supported"},
    {"partial_rotary_factor", "1", "only whole heads are rotated"},
    {"rotary_pct", "1", "only whole heads are rotated"},
    {"use_sliding_window", "false", "only a Qwen2 or Qwen3 has windows by this key"},
    {"use_qk_norm", "false", "norms of queries and keys belong to families, without a key"},
    {"qk_norm", "false", "norms of queries and keys belong to families, without a key"},
    {"clip_qkv", "null", "clipped queries, keys and values are not supported"},
    {"attn_logit_softcapping", "null", "only a Gemma 2 has capped scores"},
    {"final_logit_softcapping", "null", "capped logits are not supported"},
    {"logit_scale", "1", "scaled logits are not supported"},
    {"logits_scaling", "1", "scaled logits are not supported"},
    {"attention_multiplier", "null", "another scale of attention is not supported"},
    {"embedding_multiplier", "1", "scaled embeddings are not supported"},
    {"residual_multiplier", "1", "scaled residuals are not supported"},
    {"num_local_experts", "1", "mixtures of experts are not supported"},
    {"num_experts", "1", "mixtures of experts are not supported"},
    {"no_rope_layers", "null", "only a SmolLM3 has layers that do not rotate"},
    {kQuantization, "null",
     "of quantized weights only those of bitsandbytes in nf4 are supported; use the bf16, f16 or "
     "f32 original"},
    {"compression_config", "null",
     "quantized weights are not supported; use the bf16, f16 or f32 original"},
};
// pretraining_tp, which transformers 5 ignores and earlier ones split products by, changes rounding
// alone: any value will do.

/// Returns whether strata takes that one value alone of this key of kFixedKeys. A Gemma's
/// hidden_act has names of its own, and take_windows() reads use_sliding_window for a Qwen.
[[nodiscard]] inline bool is_fixed(std::string_view key, ModelType type) {
  if (key == "hidden_act") return !is_gemma(type);
  if (key == "use_sliding_window") return !has_key(type, "layer_types");
  return !is_family_key(key) || !has_key(type, key);
}

}  // namespace strata
