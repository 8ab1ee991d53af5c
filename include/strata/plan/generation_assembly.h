// Puts together on one device what a generation setup describes: arenas, weights, caches, model and
// sweep.

#pragma once

#include <vector>

#include "strata/comm/collectives.h"
#include "strata/ops/backend.h"
#include "strata/plan/generation_setup.h"
#include "strata/plan/sweep_assembly.h"
#include "strata/store/training_state.h"

namespace strata {

/// The memory of a generation, and the weights in it.
class GenerationMemory {
 public:
  /// Returns the home of the weights.
  [[nodiscard]] TrainingState& state() { return state_; }
  [[nodiscard]] const WeightStore& weights() const { return weights_; }
  /// Returns the arenas in the order device, pinned, pageable.
  [[nodiscard]] std::vector<const Arena*> arenas() const {
    return {&device_arena_, &pinned_arena_, &pageable_arena_};
  }

 protected:
  GenerationMemory(const GenerationSetup& setup, Device& device, Collectives& collectives);
  ~GenerationMemory() = default;

  Arena device_arena_;
  Arena pinned_arena_;
  Arena pageable_arena_;
  Arenas arenas_;
  TrainingState state_;
  WeightStore weights_;
};

/// A sweep assembly with weights of its own.
class GenerationAssembly final : public GenerationMemory, public SweepAssembly {
 public:
  /// Takes all memory; weights are undefined until they are loaded. The arguments outlive the
  /// assembly. Throws OutOfMemory.
  GenerationAssembly(const GenerationSetup& setup, const Backend& backend,
                     Collectives& collectives);
};

}  // namespace strata
