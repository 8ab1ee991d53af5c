// An engine is the memory of a rank and the weights in it, which live in host memory and stream to
// the device, or live on the device. This is what training and generation have in common: a
// TrainingEngine adds what steps need, and a GenerationEngine what sweeps need.

#pragma once

#include <memory>
#include <span>
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
  /// Returns the arenas in the order of kSpaces.
  [[nodiscard]] std::vector<const Arena*> arenas() const;
  /// Returns the seconds that it took to get the memory of this space.
  [[nodiscard]] double taken_s(Space space) const { return memory_[index_of(space)].taken_s; }

 protected:
  /// Takes all memory that the layout's plan adds up to, and of it what weights need; these are
  /// undefined until they are initialised or loaded. `shard` gathers weights. Layout, device and
  /// collectives outlive the engine. `work`, if it is given, is told which memory is being taken.
  /// Throws OutOfMemory.
  Engine(const Layout& layout, Device& device, Kernels& kernels, Collectives& shard,
         WorkProgress* work = nullptr);
  ~Engine() = default;

  /// An arena, and the seconds that it took to get it.
  struct Taken {
    std::unique_ptr<Arena> arena;
    double taken_s = 0;
  };
  static std::vector<Taken> take(Device& device, const MemoryPlan& plan, WorkProgress* work);
  static Arenas arenas_of(std::span<const Taken> memory);

  std::vector<Taken> memory_;  ///< of kSpaces
  Arenas arenas_;
  TrainingState state_;
  WeightStore weights_;
};

}  // namespace strata
