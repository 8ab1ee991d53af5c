// The two lists of assembly_memory.h.

#include "plan/assembly_memory.h"

namespace strata {

std::vector<TensorView> take_boundary_gradients(const ActivationShape& shape, Allocator& memory) {
  std::vector<TensorView> gradients;
  memory.repeat(static_cast<std::size_t>(shape.cells), [&] {
    gradients.push_back(memory.tensor(Space::kDevice, "boundary.gradients", shape.dtype,
                                      {shape.cell_tokens, shape.hidden}));
  });
  return gradients;
}

std::byte* take_rope_staging(const LlamaConfig& model, const LlamaSizes& sizes, Allocator& memory) {
  return memory.allocate(Space::kPinned, "rope.staging", Llama::rope_bytes(model, sizes));
}

}  // namespace strata
