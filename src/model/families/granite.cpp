// Granite without experts: what a LLaMA computes, with four multipliers: of rows of the embedding,
// of what attention and the MLP add to the residual stream, of scores in place of 1 / sqrt(D), and,
// as a divisor, of logits.

#include "families.h"

namespace strata {

ModelSpec granite_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.embedding_scale = config.embedding_multiplier;
  spec.logits_scale = 1 / config.logits_scaling;
  for (LayerSpec& layer : spec.kinds) {
    layer.attention.scale = config.attention_multiplier.value_or(layer.attention.scale);
    for (Linear& linear : layer.linears) {
      if (linear.id == LinearId::kAttentionOut || linear.id == LinearId::kDown) {
        linear.multiplier = config.residual_multiplier;
      }
    }
  }
  return spec;
}

}  // namespace strata
