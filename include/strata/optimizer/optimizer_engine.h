#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/ops/kernels.h"
#include "strata/optimizer/state_shuttle.h"
#include "strata/optimizer/timing.h"
#include "strata/optimizer/undo_log.h"
#include "strata/store/gradient_store.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  std::optional<double> grad_clip;  ///< global L2 norm; not with kOnArrival
  UpdateTiming timing = UpdateTiming::kBeforeUse;
  int deferred_blocks = 0;  ///< kOnArrival: updated in forward order at the end; is_deferred()
  std::vector<int> speculated_blocks{};  ///< kSpeculative: UndoLog::choose
  int max_nonfinite_steps = 3;           ///< so many in a row are skipped before the run stops
  std::uint64_t seed = 0;  ///< of the run: rounds bf16 moments, with the update's number
};

/// What is known of a step on the submitting thread.
struct StepPlan {
  std::int64_t step = 0;  ///< 0-based
  double lr = 0;
  std::int64_t valid_tokens = 0;  ///< of all passes and ranks
};

/// What became of it; handed out on the host lane.
struct StepOutcome {
  std::int64_t step = 0;
  double loss = 0;       ///< mean over all valid tokens of the step
  double grad_norm = 0;  ///< global, of the gradient the optimizer reads, before clipping
  double lr = 0;
  bool applied = true;  ///< false: the step was skipped (not finite, or without valid tokens)
  bool missed = false;  ///< kSpeculative: early updates were undone (clipped, or not finite)
};

/// What the optimizer works with; all of it outlives the engine.
struct OptimizerParts {
  TrainingState& state;
  WeightStore& weights;
  Ranks& ranks;
  Kernels& kernels;       ///< run on device lanes
  Kernels& host_kernels;  ///< run on the host lane
  StateArenas arenas;
  ThreadPool& pool;  ///< of the host lane's own tasks
};

/// AdamW where the state lives: host shards on the host lane, resident blocks on the out-lane,
/// right behind the gradient or, unless the timing is kOnArrival, the decision. Interleaved blocks
/// live on the host and are updated on the out-lane; updates in forward are submitted when the
/// weights are loaded: a lane that took all of them at once would hold up what the forward needs
/// meanwhile. All decisions that depend on data (clip factor, skip) are taken inside host tasks;
/// what is submitted depends on the options alone.
class OptimizerEngine {
 public:
  OptimizerEngine(const OptimizerParts& parts, const OptimizerOptions& options,
                  std::function<void(const StepOutcome&)> report);
  static void plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options);

  void begin_step(const StepPlan& plan, const Tag& tag);
  /// Receives the loss sum of a pass; called on the host lane, behind the last step's updates.
  [[nodiscard]] std::function<void(double)> loss_receiver();
  /// The gradient of a block is home: takes its norm from the arrival, or measures the gradient,
  /// and, on arrival, updates the block. Once the update is submitted the arrival's slot is free. A
  /// speculated block is updated too, but keeps its gradient until finish_step() has confirmed
  /// that.
  void arrived(Arrival arrival, const Tag& tag);
  /// Everything has arrived: norm, loss, clip factor, and the updates that are still due, in
  /// forward order, so that the next forward can follow block by block.
  void finish_step(const Tag& tag);
  /// Submits the updates that wait for a load. For whoever waits for the device to be done.
  void submit_updates(const Tag& tag);
  /// Bytes of state that have crossed the link for updates so far, each way.
  [[nodiscard]] std::size_t shipped_bytes() const { return shuttle_.shipped_bytes(); }
  /// Number of updates that have been applied since the start (t of the bias correction). Valid
  /// after Device::synchronize.
  [[nodiscard]] std::int64_t updates() const { return updates_; }

 private:
  /// Data of the step whose tasks are running: touched on the host lane only, in lane order.
  struct Step {
    StepPlan plan;
    double loss_sum = 0;
  };

  void measure(Arrival& arrival, const Tag& tag);
  void update(int block, const Tag& tag);
  void update_early(int block, const Tag& tag);
  void confirm(int block, const Tag& tag);
  void ship(int block, Stream& in, Event decided, const Tag& tag);
  void adamw(const BlockState& part, const ConstTensorView& gradient, int block,
             const AdamWScalars* scalars, const TensorView& nonfinite, const Tag& tag);
  void check_update(const TensorView& nonfinite, const std::string& what, int steps_ago,
                    const Tag& tag);
  void check_device_updates(int steps_ago, const Tag& tag);
  void catch_up(int steps_ago, const Tag& tag);
  void require_finite(int block, const Tag& tag);
  [[nodiscard]] AdamWScalars scalars_of(double factor, bool apply) const;
  void set_scalars(double factor, bool apply);
  void decide();
  void stop_if_stuck() const;
  [[nodiscard]] bool deferred(int block) const;
  [[nodiscard]] const std::string& block_name(int block) const;
  [[nodiscard]] bool speculated(int block) const { return undo_ && undo_->holds(block); }
  [[nodiscard]] Accesses writes_scalars() const;

  TrainingState& state_;
  WeightStore& weights_;
  StateShuttle shuttle_;
  Ranks& ranks_;
  Kernels& kernels_;
  Kernels& host_kernels_;
  Stream& host_;
  Stream& out_;
  Stream& weights_in_;
  Stream& activations_in_;
  OptimizerOptions options_;
  std::function<void(const StepOutcome&)> report_;
  TensorView partials_;                ///< of the block that the host measures: SquaredNorm's, f64
  AdamWScalars* scalars_ = nullptr;    ///< pinned, of this step
  TensorView nonfinite_;               ///< [1] i32: of updates on the host
  TensorView device_nonfinite_;        ///< [1] i32, device: of updates there, or absent
  TensorView landed_nonfinite_;        ///< [1] i32, pinned: what the device says, or absent
  std::vector<Arrival> arrivals_;      ///< per block, until its update is submitted
  std::vector<double> squared_norms_;  ///< per block, of this step; host lane only
  std::unique_ptr<UndoLog> undo_;      ///< null if no block is speculated
  Step step_;
  /// Of this step, once submitted: the scalars are set, and on arrival the loss was checked.
  std::optional<Event> decided_;
  bool updates_wait_ = false;  ///< some of the last step's are submitted by loads
  std::int64_t updates_ = 0;
  int nonfinite_in_a_row_ = 0;
};

}  // namespace strata
