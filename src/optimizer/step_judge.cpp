// Updates on arrival happen before a step is decided, so a bad step cannot be skipped then: it ends
// the run, or makes it give up what it has and go back. All other steps are judged as a whole.

#include "strata/optimizer/step_judge.h"

#include <cmath>

#include "strata/base/error.h"

namespace strata {

void StepJudge::begin(const StepPlan& plan) {
  step_ = plan;
  loss_sums_ = {};
}

/// Is called where a step that cannot be skipped turns out bad. Returns true if nothing needs to be
/// said of it, because the run goes back to a state before the step.
bool StepJudge::gives_up() {
  given_up_ = options_.on_bad_step == OnBadStep::kRollback;
  return given_up_;
}

void StepJudge::add_loss(const LossSums& sums) {
  loss_sums_ += sums;
  if (!on_arrival() || std::isfinite(sums.loss) || gives_up()) return;
  throw NumericalError("step " + std::to_string(step_.number()) +
                       ": the loss is not finite; no weight was changed in this step "
                       "(lower optimizer.lr, or check the data)");
}

void StepJudge::require_finite(const BlockGradient& gradient) {
  if (std::isfinite(gradient.squared_norm) || gives_up()) return;
  throw NumericalError("step " + std::to_string(step_.number()) + ": the gradient of " +
                       gradient.block + " is not finite" +
                       (gradient.held ? "; its weights were not changed" : "") +
                       " (lower optimizer.lr, or use optimizer.timing = before_use, which skips "
                       "such steps)");
}

/// A bad step is not applied, unless that was decided before anybody knew that it is bad. Only good
/// steps that have a loss count in the statistics.
StepOutcome StepJudge::decide(const StepSums& sums) {
  StepOutcome outcome{.step = step_.step,
                      .loss = {},
                      .grad_norm = std::sqrt(sums.squared_norm),
                      .lr = step_.lr,
                      .bad = {},
                      .history = {}};
  if (step_.valid_tokens > 0) {
    const auto count = static_cast<double>(step_.valid_tokens);
    outcome.loss = sums.losses.loss / count;
    outcome.chosen_reward = sums.losses.chosen_reward / count;
    outcome.rejected_reward = sums.losses.rejected_reward / count;
    outcome.preferred = sums.losses.preferred / count;
  }
  outcome.bad = what_is_bad(outcome.loss.value_or(0), outcome.grad_norm, history_.statistics,
                            options_.outliers);
  const bool good = outcome.bad.empty();
  const bool too_late = on_arrival() && !given_up_;
  outcome.applied = outcome.loss.has_value() && (good || too_late);
  history_.bad_in_a_row = good ? 0 : history_.bad_in_a_row + 1;
  if (good && outcome.loss) {
    history_.statistics.loss.add(*outcome.loss);
    history_.statistics.grad_norm.add(outcome.grad_norm);
  }
  return outcome;
}

double StepJudge::clip_factor(double grad_norm) const {
  const bool clips = options_.grad_clip && grad_norm > *options_.grad_clip;
  return clips ? *options_.grad_clip / grad_norm : 1.0;
}

void StepJudge::stop_if_stuck() const {
  const std::int64_t bad = history_.bad_in_a_row;
  const int most = options_.on_bad_step == OnBadStep::kStop ? 1 : options_.max_bad_steps;
  if (options_.on_bad_step == OnBadStep::kRollback || bad == 0 || bad < most) return;
  throw NumericalError(
      "step " + std::to_string(step_.number()) + ": " +
      (bad == 1 ? "the step is bad" : std::to_string(bad) + " steps in a row are bad") + "; " +
      (on_arrival() ? "weights were changed by it" : "weights are those before the first of them") +
      " (lower optimizer.lr, raise run.max_nonfinite_steps, or set run.on_nonfinite)");
}

}  // namespace strata
