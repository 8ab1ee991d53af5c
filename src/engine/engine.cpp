// Makes the part that all engines have: takes the arenas that the layout's plan adds up to, and
// hands them to the training state and the weight store, which take from them what they listed in
// the plan.

#include "strata/engine/engine.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/process.h"

namespace strata {

std::vector<Engine::Taken> Engine::take(Device& device, const MemoryPlan& plan,
                                        WorkProgress* work) {
  std::vector<Taken> all;
  for (const SpaceTraits& memory : kSpaces) {
    const std::size_t bytes = plan.total(memory.space);
    const std::string name(memory.name);
    if (work != nullptr) {
      work->begin("taking " + format_bytes(bytes) + " of " + name + " memory");
    }
    const double begun_s = steady_seconds();
    auto arena = std::make_unique<Arena>(device, memory.space, bytes, name);
    all.push_back({std::move(arena), steady_seconds() - begun_s});
  }
  return all;
}

Arenas Engine::arenas_of(std::span<const Taken> memory) {
  Arenas all;
  for (const Taken& each : memory) all.add(*each.arena);
  return all;
}

Engine::Engine(const Layout& layout, Device& device, Kernels& kernels, Collectives& shard,
               WorkProgress* work)
    : memory_(take(device, layout.plan, work)),
      arenas_(arenas_of(memory_)),
      state_(*layout.model, layout.state, arenas_),
      weights_(state_, shard, kernels, arenas_, layout.weight_slots) {}

std::vector<const Arena*> Engine::arenas() const {
  std::vector<const Arena*> all;
  for (const Taken& each : memory_) all.push_back(each.arena.get());
  return all;
}

}  // namespace strata
