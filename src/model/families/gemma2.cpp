// Gemma 2: a Gemma with norms on both sides of attention and of the MLP, with windows in every
// other layer, a scale of scores of its own, and caps of scores and of logits.

#include <cmath>

#include "families.h"

namespace strata {

ModelSpec gemma2_spec(const LlamaConfig& config) {
  ModelSpec spec = gemma_spec(config);
  spec.logits_cap = config.final_logit_softcapping.value_or(0);
  for (LayerSpec& layer : spec.kinds) {
    AttentionSpec& attention = layer.attention;
    const auto divisor = config.query_pre_attn_scalar.value_or(attention.head_size);
    attention.scale = 1 / std::sqrt(static_cast<double>(divisor));
    attention.score_cap = config.attn_logit_softcapping.value_or(0);
    layer.norms = {{NormId::kAttention, spec.width, "input_layernorm.weight"},
                   {NormId::kMlp, spec.width, "pre_feedforward_layernorm.weight"},
                   {NormId::kAttentionOut, spec.width, "post_attention_layernorm.weight"},
                   {NormId::kMlpOut, spec.width, "post_feedforward_layernorm.weight"}};
  }
  return spec;
}

}  // namespace strata
