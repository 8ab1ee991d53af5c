// An engine is the memory of a rank and the weights in it, which live in host memory and stream to
// the device, or live on the device. This is what training and generation have in common: a
// TrainingEngine adds what steps need, and a GenerationEngine what sweeps need.

#pragma once

#include <vector>

#include "strata/base/work_progress.h"
#include "strata/comm/collectives.h"
#include "strata/device/arena.h"
#include "strata/engine/layout.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

class Engine {
 public:
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns the home of the weights, and of what is trained of them.
  [[nodiscard]] TrainingState& state() { return state_; }
  [[nodiscard]] const WeightStore& weights() const { return weights_; }
  /// Returns the arenas in the order device, pinned, pageable.
  [[nodiscard]] std::vector<const Arena*> arenas() const {
    return {&device_memory_.arena, &pinned_memory_.arena, &pageable_memory_.arena};
  }
  /// Returns the seconds that it took to get device memory, and pinned memory.
  [[nodiscard]] double device_arena_s() const { return device_memory_.taken_s; }
  [[nodiscard]] double pinned_arena_s() const { return pinned_memory_.taken_s; }

 protected:
  /// Takes all memory that the layout's plan adds up to, and of it what weights need; these are
  /// undefined until they are initialised or loaded. `shard` gathers weights. Layout, device and
  /// collectives outlive the engine. `work`, if it is given, is told which memory is being taken.
  /// Throws OutOfMemory.
  Engine(const Layout& layout, Device& device, Collectives& shard, WorkProgress* work = nullptr);
  ~Engine() = default;

  /// An arena, and the seconds that it took to get it.
  struct Taken {
    Taken(Device& device, const MemoryPlan& plan, Space space, WorkProgress* work);
    double begun_s;  ///< by a steady clock
    Arena arena;
    double taken_s;
  };

  Taken device_memory_;
  Taken pinned_memory_;
  Taken pageable_memory_;
  Arenas arenas_;
  TrainingState state_;
  WeightStore weights_;
};

}  // namespace strata
