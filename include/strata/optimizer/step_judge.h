// The judge decides what becomes of a step: whether it is bad, whether its update is applied and
// with which clip factor, and whether the run can go on. It knows the loss and the norm of the step
// and what the steps before were like, and nothing of lanes, ranks or memory. The optimizer calls
// it inside tasks of the host lane, which run one after another, so it needs no lock. A
// NumericalError that it throws there ends the run.

#pragma once

#include <cstdint>
#include <string>

#include "strata/optimizer/bad_steps.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/optimizer/step.h"
#include "strata/store/loss_store.h"

namespace strata {

/// These are the sums of a step over all passes and ranks.
struct StepSums {
  double squared_norm = 0;  ///< of the gradient
  LossSums losses{};        ///< of all valid tokens, or of all pairs
};

/// This is the gradient of one block, as an update on arrival finds it.
struct BlockGradient {
  const std::string& block;  ///< its name
  double squared_norm = 0;   ///< of this rank's shard
  bool held = true;          ///< its update waits until the gradient was checked
};

/// Decides steps, one after the other, and keeps the history of them.
class StepJudge {
 public:
  explicit StepJudge(const OptimizerOptions& options) : options_(options) {}

  /// Goes on behind these steps. To be called before the first one.
  void resume(const StepHistory& history) { history_ = history; }
  /// Begins a step.
  void begin(const StepPlan& plan);
  /// Adds the loss sums of a pass. Throws NumericalError if it is not finite and the step cannot be
  /// skipped any more.
  void add_loss(const LossSums& sums);
  /// Checks a gradient whose update does not wait for the end of the step. Throws NumericalError if
  /// it is not finite.
  void require_finite(const BlockGradient& gradient);
  /// Decides the step, and adds it to the history. What the outcome says of the updates
  /// (`missed`, `history`) is left to whoever makes them.
  [[nodiscard]] StepOutcome decide(const StepSums& sums);
  /// Notes that the update of this step is applied.
  void count_update() { ++history_.updates; }
  /// Throws NumericalError if too many steps in a row were bad. To be called once the early updates
  /// of the last one are undone.
  void stop_if_stuck() const;

  /// Returns the step that was begun last.
  [[nodiscard]] const StepPlan& step() const { return step_; }
  /// Returns the sums of the losses that were added to the step.
  [[nodiscard]] const LossSums& loss_sums() const { return loss_sums_; }
  /// Returns the factor that brings a gradient of this norm to the largest norm allowed.
  [[nodiscard]] double clip_factor(double grad_norm) const;
  /// Returns whether an update is applied as far as is known before the step is decided.
  [[nodiscard]] bool expects_update() const { return step_.valid_tokens > 0 && !given_up_; }
  /// Returns whether updates of a bad step may have gone wrong. It does not matter then, because
  /// the run goes back to a state before them.
  [[nodiscard]] bool given_up() const { return given_up_; }
  [[nodiscard]] const StepHistory& history() const { return history_; }

 private:
  [[nodiscard]] bool on_arrival() const { return options_.timing == UpdateTiming::kOnArrival; }
  bool gives_up();

  OptimizerOptions options_;
  StepPlan step_;
  LossSums loss_sums_;
  StepHistory history_;
  bool given_up_ = false;  ///< stays true: the run goes back
};

}  // namespace strata
