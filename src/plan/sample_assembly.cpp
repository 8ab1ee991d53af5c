// Takes its memory of arenas that are there.

#include "strata/plan/sample_assembly.h"

namespace strata {

SampleMemory::SampleMemory(const SampleSetup& s, const SamplePlaces& places)
    : device_arena_(places.device, places.device_begin, s.plan.total(Space::kDevice), "samples"),
      pinned_arena_(places.pinned, places.pinned_begin, s.plan.total(Space::kPinned), "samples"),
      pageable_arena_(places.pageable, 0, 0, "samples"),
      arenas_(device_arena_, pinned_arena_, pageable_arena_) {}

SampleAssembly::SampleAssembly(const SampleSetup& setup, const SamplePlaces& places,
                               Kernels& kernels, WeightStore& weights)
    : SampleMemory(setup, places), SweepAssembly(setup, kernels, nullptr, weights, arenas_) {}

}  // namespace strata
