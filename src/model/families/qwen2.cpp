// Qwen2 and Qwen2.5: what a LLaMA computes, with biases on queries, keys and
// values and on nothing else.

#include "families.h"

namespace strata {

ModelSpec qwen2_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    for (Linear& linear : layer.linears) {
      if (linear.id == LinearId::kQkv) give_bias(linear);
    }
  }
  return spec;
}

}  // namespace strata
