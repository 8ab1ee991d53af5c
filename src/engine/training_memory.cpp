// Takes boundary gradients, the memory of a reference, and the pinned memory of samples.

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

PreferenceStream take_preference(const TrainingLayout& layout, Allocator& memory) {
  PreferenceStream stream{.pairs = layout.sizes.preference.has_value()};
  if (!layout.has_reference()) return stream;
  const ActivationShape& shape = layout.activations;
  stream.spare =
      memory.tensor(Space::kDevice, "reference", shape.dtype, {shape.cell_tokens, shape.hidden});
  stream.losses = memory.tensor(Space::kDevice, "reference", accumulator_of(shape.dtype),
                                {shape.cells * shape.cell_tokens});
  return stream;
}

std::byte* take_sample_memory(const TrainingLayout& layout, Allocator& memory) {
  if (!layout.samples) return nullptr;
  return memory.allocate(Space::kPinned, "samples", layout.samples->pinned_bytes);
}

}  // namespace strata
