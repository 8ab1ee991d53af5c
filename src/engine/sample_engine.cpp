// Makes arenas for samples that are parts of the training engine's arenas, and a sweep engine in
// them. Only a little pinned memory belongs to samples alone.

#include "strata/engine/sample_engine.h"

namespace strata {

SampleMemory::SampleMemory(const SampleLayout& s, const SamplePlaces& places)
    : device_arena_(places.arenas.arena(Space::kDevice), places.device_begin,
                    s.plan.total(Space::kDevice), "samples"),
      pinned_arena_(places.arenas.arena(Space::kPinned), places.pinned_begin,
                    s.plan.total(Space::kPinned), "samples"),
      pageable_arena_(places.arenas.arena(Space::kPageable), 0, 0, "samples"),
      arenas_(device_arena_, pinned_arena_, pageable_arena_) {}

SampleEngine::SampleEngine(const SampleLayout& layout, const SamplePlaces& places, Kernels& kernels,
                           WeightStore& weights)
    : SampleMemory(layout, places), SweepEngine(layout, kernels, nullptr, weights, arenas_) {}

}  // namespace strata
