// EXAONE 4: a LLaMA whose norms are of what attention and the MLP give, not of what they read, and
// which normalises each head of queries and of keys by itself. Where some layers have a window, the
// others do not rotate queries and keys.

#include "families.h"

namespace strata {

ModelSpec exaone4_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    const std::int64_t head_size = layer.attention.head_size;
    layer.attention.rotates = !config.sliding_window || layer.attention.window > 0;
    layer.norms = {{NormId::kQuery, head_size, "self_attn.q_norm.weight"},
                   {NormId::kKey, head_size, "self_attn.k_norm.weight"},
                   {NormId::kAttentionOut, spec.width, "post_attention_layernorm.weight"},
                   {NormId::kMlpOut, spec.width, "post_feedforward_layernorm.weight"}};
  }
  return spec;
}

}  // namespace strata
