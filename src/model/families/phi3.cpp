// Makes the spec of Phi-3 and Phi-4: what a LLaMA computes, with the rotation of a
// part of each head if the config says so. q, k and v are one tensor of their files, gate and up
// another, in the order of a LLaMA's matrices.

#include "families.h"

namespace strata {

ModelSpec phi3_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    for (Linear& linear : layer.linears) {
      if (linear.id == LinearId::kQkv) linear.sources = {{"self_attn.qkv_proj.weight", linear.out}};
      if (linear.id == LinearId::kGateUp)
        linear.sources = {{"mlp.gate_up_proj.weight", linear.out}};
    }
  }
  return spec;
}

}  // namespace strata
