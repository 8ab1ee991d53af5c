// Makes the part that all engines have: takes the arenas that the layout's plan adds up to, and
// hands them to the training state and the weight store, which take from them what they listed in
// the plan.

#include "strata/engine/engine.h"

#include <string>

#include "strata/base/bytes.h"
#include "strata/base/process.h"

namespace strata {

namespace {

Arena take(Device& device, const MemoryPlan& plan, Space space, WorkProgress* work) {
  const std::size_t bytes = plan.total(space);
  const std::string name(name_of(space));
  if (work != nullptr) {
    work->begin("taking " + format_bytes(bytes) + " of " + name + " memory");
  }
  return {device, space, bytes, name};
}

}  // namespace

Engine::Taken::Taken(Device& device, const MemoryPlan& plan, Space space, WorkProgress* work)
    : begun_s(steady_seconds()),
      arena(take(device, plan, space, work)),
      taken_s(steady_seconds() - begun_s) {}

Engine::Engine(const Layout& layout, Device& device, Collectives& shard, WorkProgress* work)
    : device_memory_(device, layout.plan, Space::kDevice, work),
      pinned_memory_(device, layout.plan, Space::kPinned, work),
      pageable_memory_(device, layout.plan, Space::kPageable, work),
      arenas_(device_memory_.arena, pinned_memory_.arena, pageable_memory_.arena),
      state_(*layout.model, layout.state, arenas_),
      weights_(state_, shard, arenas_, layout.weight_slots) {}

}  // namespace strata
