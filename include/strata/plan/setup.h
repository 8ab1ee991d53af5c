// A setup is the answer of the planner: how a run is laid out on a machine, to the byte. An
// assembly is built from it, predictions are made of it, and commands print it. make_setup() makes
// it by rules from a config and a few choices; choose_placement.h picks the choices.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/checkpoint/snapshot_writer.h"
#include "strata/comm/rank_groups.h"
#include "strata/config/config.h"
#include "strata/model/layout.h"
#include "strata/model/llama.h"
#include "strata/optimizer/optimizer_engine.h"
#include "strata/plan/budget.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/rates.h"
#include "strata/plan/room.h"
#include "strata/plan/sample_setup.h"
#include "strata/plan/state_choices.h"
#include "strata/schedule/walk.h"
#include "strata/store/activation_store.h"
#include "strata/store/batch_store.h"
#include "strata/store/kept_store.h"
#include "strata/store/memory_plan.h"
#include "strata/store/training_state.h"

namespace strata {

/// A run with everything decided, and every byte that it will take. What `plan` prints is what
/// `train` allocates.
struct Setup {
  /// The given config with everything that was decided, for the run folder, logs and tests. It is
  /// made when all is decided: planning and prediction read the given config and the members below.
  RunConfig config;
  ModelSpec spec;
  HardwareSection hardware;                              ///< of the given config, for predictions
  std::optional<StoredRates> stored;                     ///< likewise: measured by earlier runs
  AttentionKernels attention = AttentionKernels::kAuto;  ///< likewise
  /// The names of a thousand layers are many, and rules copy setups by the dozen while they look
  /// for the best: all copies share one layout, which nobody changes.
  std::shared_ptr<const ModelLayout> layout;
  LlamaSizes sizes;
  StateChoices choices;  ///< what the rows of `state` were made of
  StatePlan state;
  BatchStoreShape batch;
  ActivationShape activations;
  KeepPlan kept;
  Walk walk;
  OptimizerOptions optimizer;
  std::optional<SnapshotPlan> snapshots;  ///< absent: the run saves no checkpoints
  std::optional<SampleSetup> samples;     ///< absent: the run takes none
  int weight_slots = 0;
  int activation_slots = 0;
  int gradient_slots = 0;
  Budget budget;
  MemoryPlan plan;

  [[nodiscard]] std::size_t device_bytes() const {
    return plan.total(Space::kDevice) + budget.device_overhead;
  }
  [[nodiscard]] std::size_t host_bytes() const {
    return plan.host_total() + budget.host_overhead +
           (budget.device_is_host ? plan.total(Space::kDevice) : 0);
  }
  /// Returns what it takes of both memories, for a Room to judge.
  [[nodiscard]] MemoryUse use() const { return {device_bytes(), host_bytes()}; }
  /// Returns what a cell can keep.
  [[nodiscard]] std::vector<KeptTensor> kept_tensors() const {
    return Llama::kept_tensors(spec, sizes);
  }
  /// Returns what cells keep on the device: "96 cells: 12 full, 84 recompute".
  [[nodiscard]] std::string kept_text() const;
  /// Returns the number of blocks whose row is so.
  [[nodiscard]] int count_blocks(bool (*is)(const BlockPlan&)) const;
  [[nodiscard]] int speculated_units() const {
    return count_blocks(
        [](const BlockPlan& row) { return row.updated == UpdateTime::kSpeculated; });
  }
  /// Returns the table of blocks, equal rows together.
  [[nodiscard]] std::string blocks_text() const;
  /// Returns a line like "f32 moments, bf16 gradients, 3 of 34 units resident, 2 passes, sums of 34
  /// units on the device, 17 units updated speculatively".
  [[nodiscard]] std::string state_text() const;
  /// Returns what goes to the host: "264 boundaries, 96 cells up to attention_out".
  [[nodiscard]] std::string spilled_text() const;
  /// Returns what a checkpoint has, and what of it is copied before it is written; empty if the
  /// run saves none.
  [[nodiscard]] std::string snapshots_text() const;
  /// Returns the FLOPs per token that backward spends on computing again what forward neither kept
  /// nor spilled.
  [[nodiscard]] double recompute_flops_per_token() const;
  /// Returns the bytes of boundaries and kept tensors that have a place on the host.
  [[nodiscard]] std::size_t spilled_bytes() const {
    return static_cast<std::size_t>(activations.homes(activation_slots)) *
               activations.home_bytes() +
           plan.bytes(Space::kPinned, "kept.spilled");
  }
  /// Returns the plan as `strata plan` prints it.
  [[nodiscard]] std::string to_string() const;
  /// Returns what to tell the user if nothing can be updated speculatively although that was asked
  /// for; else it is empty.
  [[nodiscard]] std::string speculation_warning() const;
  /// Returns what to tell the user if the host may not hold the run; else it is empty.
  [[nodiscard]] std::string host_warning() const;
};

/// Returns the sizes that the model's kernels run on. They do not depend on the budget.
[[nodiscard]] LlamaSizes llama_sizes(const RunConfig& config);

/// The rank that a run is planned for. It is numbers alone: planning talks to no other rank.
struct PlannedRank {
  GroupPlace place{};
  Budget budget;
  std::string_view device;              ///< its name, by which predictions know its rates
  std::optional<StoredRates> stored{};  ///< rates that earlier runs had on it
};

/// Returns the setup of these choices, whether the budget holds it or not; what they leave open is
/// decided by rules. It is a pure function of its arguments.
[[nodiscard]] Setup plan_setup(const RunConfig& given, const PlanChoices& choices,
                               const PlannedRank& planned);
/// Returns likewise a setup that the budget holds. Throws OutOfMemory, with what is needed and what
/// there is, if it does not.
[[nodiscard]] Setup make_setup(const RunConfig& given, const PlanChoices& choices,
                               const PlannedRank& planned);
/// Returns likewise the setup of the rules alone. Its OutOfMemory names the keys that help most.
[[nodiscard]] Setup make_setup(const RunConfig& given, int rank, int ranks, const Budget& budget);

/// Returns the bytes of device memory that a process takes before the arenas, where none can be
/// measured.
[[nodiscard]] std::size_t estimated_device_overhead(BackendChoice backend);
/// Returns likewise the bytes of host memory.
[[nodiscard]] std::size_t estimated_host_overhead(BackendChoice backend);

}  // namespace strata
