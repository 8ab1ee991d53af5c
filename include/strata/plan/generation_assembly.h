// Puts together on one device what a generation setup describes: arenas, weights, caches, model and
// sweep.

#pragma once

#include <vector>

#include "strata/comm/collectives.h"
#include "strata/ops/backend.h"
#include "strata/plan/generation_setup.h"
#include "strata/schedule/sweep.h"
#include "strata/store/training_state.h"

namespace strata {

class GenerationAssembly {
 public:
  /// Takes all memory; weights are undefined until they are loaded. The arguments outlive the
  /// assembly. Throws OutOfMemory.
  GenerationAssembly(const GenerationSetup& setup, const Backend& backend,
                     Collectives& collectives);
  GenerationAssembly(const GenerationAssembly&) = delete;
  GenerationAssembly& operator=(const GenerationAssembly&) = delete;

  [[nodiscard]] const GenerationSetup& setup() const { return setup_; }
  [[nodiscard]] Device& device() { return device_; }
  /// Returns the home of the weights.
  [[nodiscard]] TrainingState& state() { return state_; }
  [[nodiscard]] TokenStore& tokens() { return tokens_; }
  [[nodiscard]] const KvStore& kv() const { return kv_; }
  [[nodiscard]] const WeightStore& weights() const { return weights_; }
  [[nodiscard]] const LlamaForward& model() const { return model_; }
  [[nodiscard]] Sweep& sweep() { return sweep_; }
  /// Returns the arenas in the order device, pinned, pageable.
  [[nodiscard]] std::vector<const Arena*> arenas() const {
    return {&device_arena_, &pinned_arena_, &pageable_arena_};
  }

 private:
  const GenerationSetup& setup_;
  Device& device_;
  Arena device_arena_;
  Arena pinned_arena_;
  Arena pageable_arena_;
  Arenas arenas_;
  TrainingState state_;
  LlamaForward model_;
  WeightStore weights_;
  KvStore kv_;
  TokenStore tokens_;
  Sweep sweep_;
};

}  // namespace strata
