// GLM-4 of April 2025 and after: what a LLaMA computes, with norms also of what attention and the
// MLP give, and with pairs of neighbours rotated in a part of each head. Gate and up are one tensor
// of its files, in the order of a LLaMA's matrices; q, k and v may have biases.

#include "families.h"

namespace strata {

ModelSpec glm4_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    layer.attention.rope.pairs = RopePairs::kNeighbours;
    layer.norms.push_back({NormId::kAttentionOut, spec.width, "post_self_attn_layernorm.weight"});
    layer.norms.push_back({NormId::kMlpOut, spec.width, "post_mlp_layernorm.weight"});
    for (Linear& linear : layer.linears) {
      if (linear.id != LinearId::kGateUp) continue;
      linear.sources = {{"mlp.gate_up_proj.weight", linear.out}};
    }
  }
  return spec;
}

}  // namespace strata
