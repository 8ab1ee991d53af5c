// Qwen3 without experts: what a LLaMA computes, with a norm of each head of queries and of keys by
// itself before they are rotated.

#include "families.h"

namespace strata {

ModelSpec qwen3_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    const std::int64_t head_size = layer.attention.head_size;
    layer.norms.push_back({NormId::kQuery, head_size, "self_attn.q_norm.weight"});
    layer.norms.push_back({NormId::kKey, head_size, "self_attn.k_norm.weight"});
  }
  return spec;
}

}  // namespace strata
