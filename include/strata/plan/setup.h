// A setup is the answer of the planner: how a run is laid out on a machine, to the byte, and by
// which limits. A training engine is built from it, predictions are made of it, and commands print
// it. make_setup() makes it by rules from a config and a few choices; choose_placement.h picks the
// choices.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strata/comm/rank_groups.h"
#include "strata/config/config.h"
#include "strata/engine/training_layout.h"
#include "strata/plan/budget.h"
#include "strata/plan/plan_choices.h"
#include "strata/plan/room.h"
#include "strata/predict/known_rates.h"

namespace strata {

/// A run with everything decided, and every byte that it will take. What `plan` prints is what
/// `train` allocates.
struct Setup : TrainingLayout {
  Budget budget;
  MemorySection limits;            ///< of the given config
  std::optional<KeepLevel> spill;  ///< of every cell, if it was named or chosen
  /// How often weights alone are saved, by the given config; absent: never.
  std::optional<std::int64_t> weights_every_steps;
  HardwareSection hardware;                              ///< of the given config, for predictions
  AttentionKernels attention = AttentionKernels::kAuto;  ///< of the given config
  std::optional<StoredRates> stored;                     ///< measured by earlier runs

  [[nodiscard]] std::size_t device_bytes() const {
    return plan.total(Space::kDevice) + budget.device_overhead;
  }
  [[nodiscard]] std::size_t host_bytes() const {
    return plan.host_total() + budget.host_overhead +
           (budget.device_is_host ? plan.total(Space::kDevice) : 0);
  }
  /// Returns what it takes of both memories, for a Room to judge.
  [[nodiscard]] MemoryUse use() const { return {device_bytes(), host_bytes()}; }
  /// Returns the device of this name, as predictions of the setup want it.
  [[nodiscard]] RatedDevice rated(std::string_view device) const;
  /// Returns what cells keep on the device: "96 cells: 12 full, 84 recompute".
  [[nodiscard]] std::string kept_text() const;
  /// Returns the table of blocks, equal rows together.
  [[nodiscard]] std::string blocks_text() const;
  /// Returns a line like "f32 moments, bf16 gradients, 3 of 34 units resident, 2 passes, sums of 34
  /// units on the device, 17 units updated speculatively".
  [[nodiscard]] std::string state_text() const;
  /// Returns what goes to the host: "264 boundaries, 96 cells up to attention_out".
  [[nodiscard]] std::string spilled_text() const;
  /// Returns what a checkpoint has, and what of it is copied before it is written; empty if the
  /// run saves none.
  [[nodiscard]] std::string saves_text() const;
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

/// Returns the given config with what was decided written into the keys that were open: a run that
/// is planned from it again is the same run. Run folders and logs have it.
[[nodiscard]] RunConfig resolve(const RunConfig& given, const Setup& setup);

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
/// Returns the setup of these choices if the budget holds it. Throws OutOfMemory, with what is
/// needed and what there is, if it does not.
[[nodiscard]] Setup make_setup(const RunConfig& given, const PlanChoices& choices,
                               const PlannedRank& planned);
/// Returns the setup that the rules alone make, if the budget holds it. Throws OutOfMemory, which
/// names the keys that help most, if it does not.
[[nodiscard]] Setup make_setup(const RunConfig& given, int rank, int ranks, const Budget& budget);

/// Returns the bytes of device memory that a process takes before the arenas, where none can be
/// measured.
[[nodiscard]] std::size_t estimated_device_overhead(BackendChoice backend);
/// Returns the bytes of host memory that a process takes before the arenas, where none can be
/// measured.
[[nodiscard]] std::size_t estimated_host_overhead(BackendChoice backend);

}  // namespace strata
