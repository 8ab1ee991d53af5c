// What all units share: the temporaries, the RoPE tables, and the embedding, whose lists have one
// operator each. Layers are in llama_layer.cpp, the head is in llama_head.cpp.

#include "strata/model/llama.h"

#include <memory>

#include "llama_scratch.h"
#include "rope_copy.h"
#include "strata/base/bytes.h"

namespace strata {

std::vector<LedgerEntry> Llama::scratch_ledger(const ModelSpec& spec, const LlamaSizes& sizes) {
  std::vector<LedgerEntry> ledger;
  const auto count = [&](std::string_view name, DType dtype, Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    ledger.push_back({std::string(name), round_up(bytes, Arena::kAlignment)});
    return TensorView();
  };
  static_cast<void>(make_scratch(spec, sizes, count));
  return ledger;
}

std::size_t Llama::rope_bytes(const ModelSpec& spec, const LlamaSizes& sizes) {
  return static_cast<std::size_t>(sizes.row_tokens * spec.widths().attention.rope.width / 2) *
         size_of(accumulator_of(sizes.compute));
}

Llama::Llama(const ModelSpec& spec, const LlamaSizes& sizes, Kernels& kernels, Arena& device_arena,
             std::span<std::byte> staging)
    : spec_(spec),
      sizes_(sizes),
      kernels_(kernels),
      scratch_(std::make_unique<LlamaScratch>(
          make_scratch(spec, sizes, [&](std::string_view name, DType dtype, Shape shape) {
            return device_arena.allocate_tensor(name, dtype, shape);
          }))) {
  copy_rope_table(spec_.widths().attention.rope, device_arena.device(), scratch_->cos,
                  scratch_->sin, staging);
}

Llama::~Llama() = default;

void Llama::embedding_forward(Stream& compute, const EmbeddingWeights& w, const CellBatch& batch,
                              TensorView y, const Tag& tag) {
  kernels_.run(compute, EmbeddingForward{.ids = batch.ids, .table = w.table, .y = y}, tag);
}

void Llama::embedding_backward(Stream& compute, const EmbeddingGradients& dw,
                               const CellBatch& batch, ConstTensorView dy, const Tag& tag) {
  kernels_.run(
      compute,
      EmbeddingBackward{.ids = batch.ids, .order = batch.order, .dy = dy, .d_table = dw.table},
      tag);
}

}  // namespace strata
