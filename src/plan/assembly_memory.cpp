// The lists of assembly_memory.h.

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

std::byte* take_sample_memory(const Setup& setup, Allocator& memory) {
  if (!setup.samples) return nullptr;
  return memory.allocate(Space::kPinned, "samples", setup.samples->pinned_bytes);
}

std::size_t idle_device_bytes(const Setup& s) {
  MemoryPlan idle;
  const ActivationStore::Memory boundaries(s.activations, s.activation_slots, idle);
  const KeptStore::Memory kept(s.kept_tensors(), s.kept, idle);
  static_cast<void>(take_boundary_gradients(s.activations, idle));
  const LlamaScratch scratch(s.spec, s.sizes, idle);
  return idle.total(Space::kDevice);
}

}  // namespace strata
