// The optimizer's side of a step: it takes the norm of every gradient that arrives,
// decides whether and with which factor the step is applied, and reports what became of it. Who
// changes which block, and when, is in the table of blocks; the updaters do it
// (strata/optimizer/updater.h). The schedule calls it on the submitting thread, and no call blocks;
// what depends on data happens in host tasks, whose errors (NumericalError) end the run.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/ops/kernels.h"
#include "strata/optimizer/adamw_rule.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/optimizer/shuttle_updater.h"
#include "strata/optimizer/speculative_updater.h"
#include "strata/optimizer/step.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// The optimizer works with these parts. All of them outlive it.
struct OptimizerParts {
  TrainingState& state;
  WeightStore& weights;
  Ranks& world;           ///< all ranks
  Kernels& kernels;       ///< run on device lanes
  Kernels& host_kernels;  ///< run on the host lane
  Arenas& arenas;
  ThreadPool& pool;  ///< of the host lane's own tasks
};

/// Submits what the optimizer does in a step, from gradients that arrive to updates. All decisions
/// that depend on data (clip factor, skip) are taken inside host tasks; what is submitted depends
/// on the table of blocks alone. Updates that wait for a load are submitted when the weights are
/// loaded: a lane that took all of them at once would hold up what the forward needs meanwhile.
class Optimizer final : private LoadObserver {
 public:
  /// This is the memory that the optimizer and its updaters take.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    StateShuttle::Memory shuttle;         ///< handed to the updater of interleaved blocks, if any
    TensorView partials;                  ///< pageable: of the block that the host measures, f64
    std::byte* scalars = nullptr;         ///< pinned: AdamWScalars of this step
    TensorView nonfinite;                 ///< pageable, [1] i32: of updates on the host
    std::optional<UndoLog::Memory> undo;  ///< absent if no block is speculated
    TensorView device_nonfinite;          ///< device, [1] i32: of updates there, or absent
    TensorView landed_nonfinite;          ///< pinned, [1] i32: what the device says, or absent
  };

  /// Takes its memory from the arenas, and makes the updaters that rows of the table name. `report`
  /// is called on the host lane once a step. Throws OutOfMemory.
  Optimizer(const OptimizerParts& parts, const OptimizerOptions& options,
            std::function<void(const StepOutcome&)> report);
  Optimizer(const Optimizer&) = delete;  // updaters and the weight store refer to it
  Optimizer& operator=(const Optimizer&) = delete;

  /// Goes on behind these steps. To be called before the first one.
  void resume(const StepHistory& history) { history_ = history; }
  /// Tells `observer`, which outlives the optimizer, of every update that is submitted from now on.
  /// To be called between steps, after submit_updates(): else those that wait for a load are among
  /// them.
  void observe(UpdateObserver& observer) { observers_.push_back(&observer); }
  /// Begins the step of `plan`. Gradients that arrive from now on belong to it.
  void begin_step(const StepPlan& plan, const Tag& tag);
  /// Adds the loss sum of a pass to the step. Called on the host lane, after the updates of the
  /// last step.
  void add_loss(double sum);
  /// Says that the gradient of a block is home. Takes its norm from the arrival, or measures the
  /// gradient, and lets the block's updater begin if its row says so. Once an update is submitted
  /// the arrival's slot is free; a speculated block keeps its gradient until finish_step() has
  /// confirmed it.
  void arrived(Arrival arrival, const Tag& tag);
  /// Says that everything has arrived. Submits norm, loss and clip factor, and the updates that are
  /// still due, in forward order, so that the next forward can follow block by block.
  void finish_step(const Tag& tag);
  /// Submits the updates of the last step that still wait for a load. To be called before the first
  /// loss of the next step is submitted, and by whoever waits for the device to be done.
  void submit_updates(const Tag& tag);
  /// Returns the bytes of state that have crossed the link for updates so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const {
    return shuttle_ == nullptr ? 0 : shuttle_->shipped_bytes();
  }
  /// Returns the number of updates that were applied since the start (t of the bias correction). It
  /// is valid after Device::synchronize.
  [[nodiscard]] std::int64_t updates() const { return history_.updates; }

 private:
  /// This is the data of the step whose tasks are running. It is touched on the host lane only, in
  /// lane order.
  struct Step {
    StepPlan plan;
    double loss_sum = 0;
  };
  /// This is what the updates that wait for loads are submitted with.
  struct Waiting {
    std::int64_t step_number = 0;
    Event decided;
    Tag tag;
  };

  /// Submits the update of a block if it waits for a load of it.
  void before_load(BlockId block) override;
  void measure(Arrival& arrival, const Tag& tag);
  void check_device_updates(std::int64_t step_number, const Tag& tag);
  void require_finite(BlockId block, const Tag& tag);
  [[nodiscard]] AdamWScalars scalars_of(double factor, bool apply) const;
  void set_scalars(double factor, bool apply);
  void decide();
  void judge(StepOutcome& outcome);
  void stop_if_stuck() const;
  bool gives_up();
  void make_updaters(const OptimizerParts& parts);
  Updater& keep(std::unique_ptr<Updater> updater);
  void add_numbers(Accesses& accesses) const;
  [[nodiscard]] const BlockPlan& row(BlockId block) const { return state_.plan(block); }
  [[nodiscard]] Accesses writes_scalars() const;

  TrainingState& state_;
  WeightStore& weights_;
  Ranks& world_;
  Kernels& host_kernels_;
  Stream& host_;
  Stream& out_;
  OptimizerOptions options_;
  std::function<void(const StepOutcome&)> report_;
  Memory memory_;
  AdamWScalars* scalars_;  ///< of this step
  AdamWRule rule_;
  std::vector<UpdateObserver*> observers_;
  std::vector<std::unique_ptr<Updater>> updaters_;
  PerBlock<Updater*> updater_of_;
  ShuttleUpdater* shuttle_ = nullptr;  ///< the updater of interleaved blocks, if there are any
  PerBlock<Arrival> arrivals_;         ///< until the update is submitted
  PerBlock<double> squared_norms_;     ///< of this step; host lane only
  StepPlan submitted_;                 ///< the step that is being submitted
  Step step_;
  /// After this event the step's scalars are set and, on arrival, its loss was checked. It is
  /// absent until that is submitted.
  std::optional<Event> decided_;
  std::optional<Waiting> waiting_;  ///< absent if none of the last step's updates was left to loads
  PerBlock<std::uint8_t> waits_;    ///< the block's update waits for a load
  StepHistory history_;             ///< host lane only
  bool given_up_ = false;  ///< kRollback: updates of a bad step may have gone wrong; host lane only
};

}  // namespace strata
