// What a training engine takes beside its stores, listed once: the plan counts it and the engine
// takes it by the same functions, as with the Memory of each store.

#pragma once

#include <cstddef>
#include <vector>

#include "strata/device/allocator.h"
#include "strata/engine/training_layout.h"
#include "strata/schedule/schedule.h"

namespace strata {

/// Returns the gradients of the current boundary on the device, [N, C] X for each cell. The views
/// have no data from an allocator that only counts.
[[nodiscard]] std::vector<TensorView> take_boundary_gradients(const ActivationShape& shape,
                                                              Allocator& memory);
/// Returns what the loss reads beside the model, with the memory of a reference if there is one.
[[nodiscard]] PreferenceStream take_preference(const TrainingLayout& layout, Allocator& memory);
/// Returns the pinned memory of samples, or null if the run takes none.
std::byte* take_sample_memory(const TrainingLayout& layout, Allocator& memory);

}  // namespace strata
