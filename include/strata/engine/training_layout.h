// How a rank's part of a run is laid out in memory, to the byte. A training engine is built from
// it, and predictions are made of it. The planner decides what is in it; nothing here reads a
// config.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "strata/checkpoint/state_saver.h"
#include "strata/engine/layout.h"
#include "strata/engine/sample_layout.h"
#include "strata/engine/state_choices.h"
#include "strata/model/llama.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/schedule/walk.h"
#include "strata/store/activation_store.h"
#include "strata/store/batch_store.h"
#include "strata/store/kept_store.h"
#include "strata/store/training_state.h"

namespace strata {

struct TrainingLayout : Layout {
  ModelSpec spec;
  LlamaSizes sizes;
  StateChoices choices;  ///< what the rows of `state` were made of
  BatchStoreShape batch;
  ActivationShape activations;
  KeepPlan kept;
  Walk walk;
  OptimizerOptions optimizer;
  std::optional<SavePlan> saves;        ///< absent: the run saves no checkpoints
  std::optional<SampleLayout> samples;  ///< absent: the run takes none
  int activation_slots = 0;
  int gradient_slots = 0;
  std::int64_t fp8_metrics_every = 0;  ///< steps to the next that counts what e4m3 loses; 0: none

  /// Returns whether the model without its adapters computes beside it.
  [[nodiscard]] bool has_reference() const {
    return sizes.preference && sizes.preference->needs_reference() && !batch.reference_logs;
  }
  /// Returns what a cell can keep.
  [[nodiscard]] std::vector<KeptTensor> kept_tensors() const {
    return Llama::kept_tensors(spec, sizes);
  }
  /// Returns the number of blocks whose row is so.
  [[nodiscard]] int count_blocks(bool (*is)(const BlockPlan&)) const;
  [[nodiscard]] int speculated_units() const {
    return count_blocks(
        [](const BlockPlan& row) { return row.updated == UpdateTime::kSpeculated; });
  }
  /// Returns the bytes of device memory whose contents nobody needs between steps: boundaries and
  /// their gradients, what cells keep, and temporaries. An engine has them side by side, in this
  /// order.
  [[nodiscard]] std::size_t idle_device_bytes() const;
  /// Returns the tokens of a step of all ranks, ignored targets included.
  [[nodiscard]] std::int64_t step_tokens() const {
    return batch.batch.pass_tokens() * choices.passes * state.world();
  }

  /// Makes the table of blocks of the choices, and lists in the plan what an engine takes beside
  /// activations: add_activations() adds these.
  void list_fixed_memory();
  /// Lists boundaries, what cells keep and the model's scratch, as they were decided.
  void add_activations();
  /// Lists the model's scratch alone.
  void add_scratch();
};

}  // namespace strata
