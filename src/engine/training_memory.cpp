// Takes boundary gradients, and the pinned memory of samples.

#include "engine/training_memory.h"

namespace strata {

std::vector<TensorView> take_boundary_gradients(const ActivationShape& shape, Allocator& memory) {
  std::vector<TensorView> gradients;
  memory.repeat(static_cast<std::size_t>(shape.cells), [&] {
    gradients.push_back(memory.tensor(Space::kDevice, "boundary.gradients", shape.dtype,
                                      {shape.cell_tokens, shape.hidden}));
  });
  return gradients;
}

std::byte* take_sample_memory(const TrainingLayout& layout, Allocator& memory) {
  if (!layout.samples) return nullptr;
  return memory.allocate(Space::kPinned, "samples", layout.samples->pinned_bytes);
}

}  // namespace strata
