// Makes a Llama and runs the embedding, whose lists have one operator each. What all units share is
// here: the temporaries and the RoPE tables. Layers are in llama_layer.cpp, the head is in
// llama_head.cpp.

#include "strata/model/llama.h"

#include "rope_memory.h"

namespace strata {

Llama::Llama(const ModelSpec& spec, const LlamaSizes& sizes, Kernels& kernels, Arenas& arenas)
    : spec_(spec), sizes_(sizes), kernels_(kernels), memory_(spec, sizes, arenas) {
  fill_rope_tables(memory_.rope, sizes.row_tokens, arenas.device());
}

/// Returns the masks of what the adapters of a layer's first linear read. Each linear has a stream.
DropoutMask Llama::adapter_dropout(int layer, const CellBatch& batch) const {
  if (!batch.draws) return {};
  return {.rate = spec_.adapter_dropout,
          .seed = batch.draws->seed,
          .stream = static_cast<std::uint64_t>(layer) * kLinears,
          .first = batch.draws->first};
}

void Llama::embedding_forward(Stream& compute, const EmbeddingWeights& w, const CellBatch& batch,
                              TensorView y, const Tag& tag) {
  kernels_.run(
      compute,
      EmbeddingForward{.ids = batch.ids, .table = w.table, .y = y, .scale = spec_.embedding_scale},
      tag);
}

void Llama::embedding_backward(Stream& compute, const EmbeddingGradients& dw,
                               const CellBatch& batch, ConstTensorView dy, const Tag& tag) {
  kernels_.run(compute,
               EmbeddingBackward{.ids = batch.ids,
                                 .order = batch.order,
                                 .dy = dy,
                                 .d_table = dw.table,
                                 .scale = spec_.embedding_scale},
               tag);
}

}  // namespace strata
