// Takes the arenas that a plan adds up to and hands them to the stores.

#include "strata/plan/generation_assembly.h"

#include <string>

namespace strata {

namespace {

Arena take(Device& device, const GenerationSetup& s, Space space) {
  return {device, space, s.plan.total(space), std::string(name_of(space))};
}

}  // namespace

GenerationAssembly::GenerationAssembly(const GenerationSetup& s, const Backend& backend,
                                       Collectives& collectives)
    : setup_(s),
      device_(*backend.device),
      device_arena_(take(device_, s, Space::kDevice)),
      pinned_arena_(take(device_, s, Space::kPinned)),
      pageable_arena_(take(device_, s, Space::kPageable)),
      arenas_(device_arena_, pinned_arena_, pageable_arena_),
      state_(*s.layout, s.state, arenas_),
      model_(s.model, s.sizes, *backend.kernels, arenas_),
      weights_(state_, collectives, arenas_, s.weight_slots),
      kv_(s.kv, arenas_),
      tokens_(s.sweep, arenas_),
      sweep_({model_, weights_, kv_, tokens_}, s.layout->layers(), device_.stream(Lane::kCompute),
             take_residual_stream(s, arenas_)) {}

}  // namespace strata
