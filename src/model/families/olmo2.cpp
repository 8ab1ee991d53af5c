// OLMo 2: a LLaMA whose norms are of what attention and the MLP give, not of what they read, and
// which normalises all of q and all of k, over their whole widths, before they are rotated.

#include "families.h"

namespace strata {

ModelSpec olmo2_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    const AttentionSpec& attention = layer.attention;
    layer.norms = {{NormId::kQuery, attention.query_width(), "self_attn.q_norm.weight"},
                   {NormId::kKey, attention.kv_width(), "self_attn.k_norm.weight"},
                   {NormId::kAttentionOut, spec.width, "post_attention_layernorm.weight"},
                   {NormId::kMlpOut, spec.width, "post_feedforward_layernorm.weight"}};
  }
  return spec;
}

}  // namespace strata
