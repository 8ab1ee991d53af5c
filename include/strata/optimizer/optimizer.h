// The optimizer's side of a step. The schedule tells it of losses and of gradients that arrive; it
// has their norms taken, the step judged and the blocks updated, in an order that does not depend
// on data. GradientNorms, StepJudge and BlockUpdates do these three; who changes which block, and
// when, is in the table of blocks. The schedule calls it on the submitting thread, and no call
// blocks; what depends on data happens in tasks of the host lane, whose errors (NumericalError) end
// the run.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "strata/optimizer/block_updates.h"
#include "strata/optimizer/gradient_norms.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/optimizer/optimizer_parts.h"
#include "strata/optimizer/step.h"
#include "strata/optimizer/step_judge.h"
#include "strata/optimizer/update_rule.h"

namespace strata {

/// Submits what becomes of a step's gradients, from their arrival to the updates.
class Optimizer {
 public:
  /// This is the memory that the optimizer and its updaters take.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    GradientNorms::Memory norms;
    std::byte* scalars = nullptr;  ///< pinned: AdamWScalars of this step
    BlockUpdates::Memory updates;  ///< handed to the updates
  };

  /// Takes its memory from the arenas. `report` is called on the host lane once a step. Throws
  /// OutOfMemory.
  Optimizer(const OptimizerParts& parts, const OptimizerOptions& options,
            std::function<void(const StepOutcome&)> report);
  Optimizer(const Optimizer&) = delete;  // host tasks refer to it
  Optimizer& operator=(const Optimizer&) = delete;

  /// Goes on behind these steps. To be called before the first one.
  void resume(const StepHistory& history) { judge_.resume(history); }
  /// Tells `observer`, which outlives the optimizer, of every update that is submitted from now on.
  /// To be called between steps, after submit_updates(): else those that wait for a load are among
  /// them.
  void observe(UpdateObserver& observer) { updates_.observe(observer); }
  /// Begins the step of `plan`. Gradients that arrive from now on belong to it.
  void begin_step(const StepPlan& plan, const Tag& tag);
  /// Adds the loss sum of a pass to the step. Called on the host lane, after the updates of the
  /// last step.
  void add_loss(const LossSums& sums) { judge_.add_loss(sums); }
  /// Says that the gradient of a block is home. Takes its norm from the arrival, or measures the
  /// gradient, and lets the block's updater begin if its row says so. Once an update is submitted
  /// the arrival's slot is free; a speculated block keeps its gradient until finish_step() has
  /// confirmed it.
  void arrived(Arrival arrival, const Tag& tag);
  /// Says that everything has arrived. Submits norm, loss and clip factor, and the updates that are
  /// still due.
  void finish_step(const Tag& tag);
  /// Submits the updates of the last step that still wait for a load. To be called before the first
  /// loss of the next step is submitted, and by whoever waits for the device to be done.
  void submit_updates(const Tag& tag) { updates_.submit_waiting(tag); }
  /// Returns the bytes of state that have crossed the link for updates so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return updates_.shipped_bytes(); }
  /// Returns the number of updates that were applied since the start (t of the bias correction). It
  /// is valid after Device::synchronize.
  [[nodiscard]] std::int64_t updates() const { return judge_.history().updates; }

 private:
  void require_finite(BlockId block, const Tag& tag);
  void decide();
  [[nodiscard]] AdamWScalars scalars_of(double factor, bool apply) const;
  void set_scalars(double factor, bool apply);
  [[nodiscard]] Accesses writes_scalars() const;

  TrainingState& state_;
  Ranks& world_;
  Stream& host_;
  OptimizerOptions options_;
  std::function<void(const StepOutcome&)> report_;
  Memory memory_;
  AdamWScalars* scalars_;  ///< of this step
  UpdateRule rule_;
  StepJudge judge_;  ///< host lane only
  GradientNorms norms_;
  BlockUpdates updates_;
  /// After this event the step's scalars are set and, on arrival, its loss was checked. It is
  /// absent until that is submitted.
  std::optional<Event> decided_;
};

}  // namespace strata
