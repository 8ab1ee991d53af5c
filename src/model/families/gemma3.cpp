// Gemma 3, its text part: a Gemma 2 that normalises each head of queries and of keys by itself. Its
// layers with a window rotate by a theta of their own and by wavelengths that are not scaled.

#include "families.h"

namespace strata {

ModelSpec gemma3_spec(const LlamaConfig& config) {
  ModelSpec spec = gemma2_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    const std::int64_t head_size = layer.attention.head_size;
    layer.norms.push_back({NormId::kQuery, head_size, "self_attn.q_norm.weight"});
    layer.norms.push_back({NormId::kKey, head_size, "self_attn.k_norm.weight"});
    if (layer.attention.window == 0) continue;
    layer.attention.rope.theta = config.rope_local_base_freq;
    layer.attention.rope.scaling.reset();
  }
  return spec;
}

}  // namespace strata
