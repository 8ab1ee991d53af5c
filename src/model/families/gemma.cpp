// The first Gemma: a LLaMA that is gated by GELU by its tanh, whose norms multiply by 1 + weight,
// and whose embeddings are multiplied by sqrt(C).

#include <cmath>

#include "families.h"

namespace strata {

ModelSpec gemma_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  spec.norm_offset = 1;
  // Transformers has it in f32 before it rounds it to the dtype of the embedding.
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
  for (LayerSpec& layer : spec.kinds) layer.activation = Activation::kGeluTanh;
  return spec;
}

}  // namespace strata
