// A training engine has the stores, model, optimizer and schedule of a rank, and submits its steps.
// A session has one on the device that trains, and a prediction one on the dry backend: what they
// submit is the same.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "strata/base/work_progress.h"
#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/data/batch.h"
#include "strata/engine/engine.h"
#include "strata/engine/sample_engine.h"
#include "strata/engine/training_layout.h"
#include "strata/model/fp8_counts.h"
#include "strata/ops/backend.h"
#include "strata/schedule/schedule.h"
#include "strata/store/fp8_count_store.h"

namespace strata {

/// What a rank runs on; all of it outlives the engine.
struct EngineParts {
  const Backend& backend;
  Ranks& world;                   ///< all ranks
  GroupCollectives& collectives;  ///< of their groups on this backend's device
  WorkProgress* work = nullptr;   ///< told which memory is being taken, if somebody wants to know
};

/// Says as what a rank wants the state after a step to be saved, and makes the saves.
struct SaveWish {
  SaveKinds due{};  ///< on this rank; what is due on one is saved by all
  std::function<Saves(const SaveKinds& agreed)> make = nullptr;
};

/// The stores, model, optimizer and schedule of a rank, and the way in which steps are submitted.
class TrainingEngine final : public Engine {
 public:
  /// It is called on the host lane when loss and norm of a step are known.
  using Report = std::function<void(const StepOutcome& outcome, std::int64_t valid_tokens)>;
  /// It fills the buffers of a pass and returns the number of valid targets.
  using Fill = std::function<std::int64_t(int pass, const PassBuffers& buffers)>;

  /// Takes all memory; training state is undefined until it is initialised or loaded. The layout
  /// outlives the engine. Throws OutOfMemory.
  TrainingEngine(const TrainingLayout& layout, const EngineParts& parts, Report report);

  /// Submits a step, pass by pass filled by `fill`. Blocks first until at most one earlier step is
  /// unfinished. Returns as what the state after it is being saved: as what any rank wishes,
  /// unless a rank is busy with the save before. Throws what an earlier step's work threw.
  SaveKinds submit(std::int64_t step, double lr, const Fill& fill, const SaveWish& wish = {});

  /// Returns what steps have counted that have ended since the last call, in order. Does not block;
  /// any thread may ask.
  [[nodiscard]] std::vector<Fp8StepCounts> take_fp8_counts();
  /// Goes on after these steps, see Optimizer::resume.
  void resume(const StepHistory& history) { optimizer_.resume(history); }
  [[nodiscard]] const Llama& model() const { return model_; }
  [[nodiscard]] const GradientStore& gradients() const { return gradients_; }
  [[nodiscard]] const ActivationStore& activations() const { return activations_; }
  [[nodiscard]] const KeptStore& kept() const { return kept_; }
  [[nodiscard]] Optimizer& optimizer() { return optimizer_; }
  [[nodiscard]] BatchStore& batches() { return batches_; }
  [[nodiscard]] Schedule& schedule() { return schedule_; }
  /// Returns what saves the state, or null if the layout has no saves.
  [[nodiscard]] StateSaver* saver() { return saver_ ? &*saver_ : nullptr; }
  /// Returns what continues sequences with the weights as they are, in memory that is idle between
  /// steps. The layout has samples, all work is done, and what is returned is gone before the next
  /// step is submitted.
  [[nodiscard]] std::unique_ptr<SampleEngine> make_samples();

 private:
  /// What all ranks together have of a step.
  struct Agreed {
    std::int64_t valid = 0;  ///< targets
    SaveKinds saves;         ///< nothing if a rank is busy
  };
  [[nodiscard]] Agreed agree(std::int64_t valid, const SaveKinds& due);
  void submit_counted(const StepPlan& plan, const std::vector<int>& slots);
  void receive_counts(std::int64_t step, std::span<const double> own);
  void set_draws(std::int64_t step, const std::vector<int>& slots);

  const TrainingLayout& layout_;
  Device& device_;
  Kernels& kernels_;
  Ranks& world_;
  Report report_;
  GradientStore gradients_;
  BatchStore batches_;
  LossStore losses_;
  PreferenceStream preference_;
  Optimizer optimizer_;
  std::size_t
      idle_begin_;  ///< in the device arena: from here on is what idle_device_bytes() counts
  ActivationStore activations_;
  KeptStore kept_;
  std::vector<TensorView> boundary_gradients_;
  Llama model_;
  std::size_t samples_begin_;  ///< in the pinned arena
  Schedule schedule_;
  std::optional<Fp8CountStore> fp8_counts_;  ///< absent: no step counts
  std::optional<StateSaver> saver_;
  std::mutex counted_mutex_;
  std::vector<Fp8StepCounts> counted_;  ///< guarded by counted_mutex_

  std::array<Event, 2> step_ends_{};  ///< of the last two steps, by parity
  std::array<std::int64_t, 2> step_tokens_{};
  std::vector<TokenDraws> draws_;  ///< of a pass
};

}  // namespace strata
