// Takes the arenas that a plan adds up to and hands them to the stores.

#include "strata/plan/generation_assembly.h"

#include <string>

namespace strata {

namespace {

Arena take(Device& device, const GenerationSetup& s, Space space) {
  return {device, space, s.plan.total(space), std::string(name_of(space))};
}

}  // namespace

GenerationMemory::GenerationMemory(const GenerationSetup& s, Device& device,
                                   Collectives& collectives)
    : device_arena_(take(device, s, Space::kDevice)),
      pinned_arena_(take(device, s, Space::kPinned)),
      pageable_arena_(take(device, s, Space::kPageable)),
      arenas_(device_arena_, pinned_arena_, pageable_arena_),
      state_(*s.layout, s.state, arenas_),
      weights_(state_, collectives, arenas_, s.weight_slots) {}

GenerationAssembly::GenerationAssembly(const GenerationSetup& s, const Backend& backend,
                                       Collectives& collectives)
    : GenerationMemory(s, *backend.device, collectives),
      SweepAssembly(s, *backend.kernels, &backend.host_kernels(), weights_, arenas_) {}

}  // namespace strata
