// Submits norms, decision and updates of a step in an order that does not depend on data. The host
// lane runs the tasks one after another, so what they share (the step, its scalars, the sums) needs
// no lock.

#include "strata/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <string>
#include <utility>

#include "strata/base/log.h"
#include "strata/optimizer/adamw_scalars.h"

namespace strata {

namespace {

bool any_on_device(const StatePlan& plan) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [](const BlockPlan& row) { return row.updated_on_device(); });
}

bool any_updated(const StatePlan& plan, UpdateTime when) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [&](const BlockPlan& row) { return row.updated == when; });
}

}  // namespace

Optimizer::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : shuttle(layout, plan, memory, plan.chunk_factor * StateShuttle::kChunk),
      partials(memory.tensor(Space::kPageable, "optimizer.norms", DType::kF64,
                             {GradientStore::host_partials(layout, plan)})),
      scalars(memory.allocate(Space::kPinned, "optimizer.scalars", sizeof(AdamWScalars))),
      nonfinite(memory.tensor(Space::kPageable, "optimizer.nonfinite", DType::kI32, {1})) {
  if (any_updated(plan, UpdateTime::kSpeculated)) undo.emplace(layout, plan, memory);
  if (!any_on_device(plan)) return;
  device_nonfinite = memory.tensor(Space::kDevice, "optimizer.nonfinite", DType::kI32, {1});
  landed_nonfinite = memory.tensor(Space::kPinned, "optimizer.nonfinite", DType::kI32, {1});
}

Optimizer::Optimizer(const OptimizerParts& parts, const OptimizerOptions& options,
                     std::function<void(const StepOutcome&)> report)
    : state_(parts.state),
      weights_(parts.weights),
      world_(parts.world),
      host_kernels_(parts.host_kernels),
      host_(parts.arenas.device().stream(Lane::kHost)),
      out_(parts.arenas.device().stream(Lane::kOut)),
      options_(options),
      report_(std::move(report)),
      memory_(parts.state.layout(), parts.state.plan(), parts.arenas),
      scalars_(new(memory_.scalars) AdamWScalars),
      rule_(parts.state.layout(),
            {.weight_decay = options.weight_decay, .decay_norms = options.decay_norms}),
      updater_of_(parts.state.blocks()),
      arrivals_(parts.state.blocks()),
      squared_norms_(parts.state.blocks()),
      waits_(parts.state.blocks()) {
  *memory_.nonfinite.as<std::int32_t>() = 0;
  if (memory_.device_nonfinite) {
    out_.set(memory_.device_nonfinite.data, 0, sizeof(std::int32_t), {.phase = "initialize"});
  }
  make_updaters(parts);
  weights_.observe(*this);
}

Updater& Optimizer::keep(std::unique_ptr<Updater> updater) {
  updaters_.push_back(std::move(updater));
  return *updaters_.back();
}

/// Makes the updaters that rows name, and no others.
void Optimizer::make_updaters(const OptimizerParts& parts) {
  const UpdaterParts shared{.state = state_,
                            .weights = weights_,
                            .device = parts.arenas.device(),
                            .kernels = parts.kernels,
                            .host_kernels = parts.host_kernels,
                            .rule = rule_,
                            .scalars = scalars_,
                            .nonfinite = memory_.nonfinite,
                            .device_nonfinite = memory_.device_nonfinite,
                            .step = submitted_,
                            .given_up = given_up_,
                            .observers = observers_};
  Updater* host = nullptr;
  Updater* resident = nullptr;
  Updater* speculative = nullptr;
  const auto once = [this](Updater*& made, const auto& make) {
    if (made == nullptr) made = &keep(make());
    return made;
  };
  for (const BlockId b : state_.ids()) {
    switch (row(b).updated_by) {
      case UpdatedBy::kNobody: break;
      case UpdatedBy::kHost:
        updater_of_[b] = row(b).updated == UpdateTime::kSpeculated
                             ? once(speculative,
                                    [&] {
                                      return std::make_unique<SpeculativeUpdater>(
                                          shared, UndoLog(state_, *memory_.undo, parts.pool));
                                    })
                             : once(host, [&] { return make_host_updater(shared); });
        break;
      case UpdatedBy::kResident:
        updater_of_[b] = once(resident, [&] { return make_resident_updater(shared); });
        break;
      case UpdatedBy::kShuttle:
        if (shuttle_ == nullptr) {
          auto made = std::make_unique<ShuttleUpdater>(
              shared, StateShuttle(state_, std::move(memory_.shuttle), shared.device,
                                   state_.plan().chunk_factor * StateShuttle::kChunk));
          shuttle_ = made.get();
          keep(std::move(made));
        }
        updater_of_[b] = shuttle_;
        break;
    }
  }
}

Accesses Optimizer::writes_scalars() const {
  return {{}, {{reinterpret_cast<const std::byte*>(scalars_), sizeof(AdamWScalars)}}};
}

/// Adds to `accesses` where updaters write their own numbers of a step.
void Optimizer::add_numbers(Accesses& accesses) const {
  for (const auto& updater : updaters_) {
    if (const auto numbers = updater->numbers()) accesses.writes.push_back(*numbers);
  }
}

void Optimizer::begin_step(const StepPlan& plan, const Tag& tag) {
  submitted_ = plan;
  const auto accesses = [&] {
    Accesses all;
    add_numbers(all);
    return all;
  };
  host_.host_task("begin_step", accesses, tag, [this, plan] {
    step_ = {.plan = plan};
    const AdamWScalars guess = scalars_of(1.0, plan.valid_tokens > 0);
    for (const auto& updater : updaters_) updater->expect(guess);
  });
  decided_.reset();
}

/// Runs on the host lane where a step that is decided too late to be skipped turns out bad. Returns
/// whether nothing needs to be said: the run goes back to a state before it.
bool Optimizer::gives_up() {
  given_up_ = options_.on_bad_step == OnBadStep::kRollback;
  return given_up_;
}

void Optimizer::add_loss(double sum) {
  step_.loss_sum += sum;
  if (options_.timing == UpdateTiming::kOnArrival && !std::isfinite(sum) && !gives_up()) {
    throw NumericalError("step " + std::to_string(step_.plan.number()) +
                         ": the loss is not finite; no weight was changed in this step "
                         "(lower optimizer.lr, or check the data)");
  }
}

/// Returns the numbers of this step's update, which is the next one if it is applied.
AdamWScalars Optimizer::scalars_of(double factor, bool apply) const {
  return adamw_scalars(options_, {.number = history_.updates + (apply ? 1 : 0),
                                  .lr = step_.plan.lr,
                                  .grad_factor = factor,
                                  .applied = apply});
}

void Optimizer::set_scalars(double factor, bool apply) {
  *scalars_ = scalars_of(factor, apply);
  if (apply) ++history_.updates;
}

/// Submits the sum of a gradient's squares. It is taken now and not by decide(), because the
/// partials are overwritten by the next block, or the next step, before that.
void Optimizer::measure(Arrival& arrival, const Tag& tag) {
  ConstTensorView partials = arrival.norms;
  if (!partials) {
    const std::int64_t count = SquaredNorm::partials(arrival.gradient.elements());
    const TensorView own = memory_.partials.slice_rows(0, count);
    host_kernels_.run(host_, SquaredNorm{.x = arrival.gradient, .partial = own}, tag);
    partials = own;
  } else {
    arrival.norms_lease.use(host_, WaitFor::kArrived);
  }
  double& sum = squared_norms_[arrival.block];
  host_.host_task(
      "sum_norms", [&] { return Accesses({partials.bytes()}, {}); }, tag,
      [partials, &sum] {
        const double* values = partials.as<double>();
        sum = 0;
        for (std::int64_t i = 0; i < partials.elements(); ++i) sum += values[i];
      });
}

void Optimizer::require_finite(BlockId block, const Tag& tag) {
  const bool may_have_changed =
      row(block).updated_on_device() && row(block).updated == UpdateTime::kOnArrival;
  host_.host_task("require_finite", {}, tag, [this, block, may_have_changed] {
    if (std::isfinite(squared_norms_[block]) || gives_up()) return;
    throw NumericalError("step " + std::to_string(step_.plan.number()) + ": the gradient of " +
                         state_.layout().blocks[block].name + " is not finite" +
                         (may_have_changed ? "" : "; its weights were not changed") +
                         " (lower optimizer.lr, or use optimizer.timing = before_use, which skips "
                         "such steps)");
  });
}

/// Submits, once a step, a check of what updates on the device found. After it the host lane knows
/// that the device has read the scalars, and may write them anew.
void Optimizer::check_device_updates(std::int64_t step_number, const Tag& tag) {
  if (!memory_.device_nonfinite) return;
  out_.copy(memory_.landed_nonfinite.data, memory_.device_nonfinite.data, sizeof(std::int32_t),
            tag);
  host_.wait(out_.record(), WaitFor::kArrived);
  submit_update_check(host_, memory_.landed_nonfinite,
                      {.step_number = step_number,
                       .what = "the blocks updated on the device",
                       .given_up = given_up_},
                      tag);
}

/// After this the host lane knows that the last step's updates were right and that its scalars were
/// read.
void Optimizer::submit_updates(const Tag& tag) {
  if (!waiting_) return;
  for (const BlockId b : state_.ids()) before_load(b);
  check_device_updates(waiting_->step_number, tag);
  waiting_.reset();
}

void Optimizer::before_load(BlockId block) {
  if (std::exchange(waits_[block], std::uint8_t{0}) == 0) return;
  const Waiting& waiting = waiting_.value();
  updater_of_[block]->before_load(block, waiting.decided,
                                  {waiting.tag.phase, waiting.tag.pass, block.value(), -1});
}

void Optimizer::arrived(Arrival arrival, const Tag& tag) {
  const BlockId block = arrival.block;
  const Tag own{tag.phase, tag.pass, block.value(), -1};
  const bool on_arrival = options_.timing == UpdateTiming::kOnArrival;
  // The first arrival comes after the loss of the last pass.
  if (on_arrival && !decided_) {
    host_.host_task(
        "set_scalars", [&] { return writes_scalars(); }, tag,
        [this] { set_scalars(1.0, step_.plan.valid_tokens > 0 && !given_up_); });
    decided_ = host_.record();
  }
  host_.wait(arrival.event, WaitFor::kArrived);
  if (arrival.slot) arrival.slot.use(host_, WaitFor::kArrived);
  measure(arrival, own);
  arrival.norms_lease.end();
  arrivals_[block] = std::move(arrival);
  if (on_arrival) require_finite(block, own);
  const UpdateTime when = row(block).updated;
  if (when == UpdateTime::kOnArrival || when == UpdateTime::kSpeculated) {
    updater_of_[block]->arrived(block, arrivals_[block], decided_, own);
  }
}

/// Runs as a host task: sums over blocks and ranks, and decides whether and with which factor the
/// step is applied.
void Optimizer::decide() {
  std::array<double, 2> sums{0, step_.loss_sum};
  if (state_.plan().replica == 0) {  // the others have the same gradients
    for (const double sum : squared_norms_) sums[0] += sum;
  }
  world_.all_reduce_sum(sums, Channel::kHost);
  StepOutcome outcome{.step = step_.plan.step,
                      .loss = {},
                      .grad_norm = std::sqrt(sums[0]),
                      .lr = step_.plan.lr,
                      .bad = {},
                      .history = {}};
  if (step_.plan.valid_tokens > 0) {
    outcome.loss = sums[1] / static_cast<double>(step_.plan.valid_tokens);
  }
  judge(outcome);
  if (options_.timing != UpdateTiming::kOnArrival) {
    const bool clips = options_.grad_clip && outcome.grad_norm > *options_.grad_clip;
    const double factor = clips ? *options_.grad_clip / outcome.grad_norm : 1.0;
    set_scalars(factor, outcome.applied);
  }
  for (const auto& updater : updaters_) {
    if (!updater->settle(*scalars_)) outcome.missed = true;
  }
  outcome.history = history_;
  report_(outcome);
  if (!outcome.bad.empty()) {
    log::warn("step {}: {}{}", step_.plan.number(), outcome.bad,
              outcome.applied ? "" : "; the update is skipped");
  } else if (step_.plan.valid_tokens == 0) {
    log::warn("step {}: no token has a target; nothing was updated", step_.plan.number());
  }
}

/// Says whether the step is bad, and whether its update is applied: a bad one is not, but where it
/// was before anybody knew.
void Optimizer::judge(StepOutcome& outcome) {
  StepHistory& history = history_;
  const bool counts = outcome.loss.has_value();
  outcome.bad = what_is_bad(outcome.loss.value_or(0), outcome.grad_norm, history.statistics,
                            options_.outliers);
  const bool too_late = options_.timing == UpdateTiming::kOnArrival && !given_up_;
  outcome.applied = counts && (outcome.bad.empty() || too_late);
  history.bad_in_a_row = outcome.bad.empty() ? 0 : history.bad_in_a_row + 1;
  if (!outcome.bad.empty() || !counts) return;
  history.statistics.loss.add(*outcome.loss);
  history.statistics.grad_norm.add(outcome.grad_norm);
}

/// Runs as a host task, after what undoes early updates: throws NumericalError after too many bad
/// steps in a row.
void Optimizer::stop_if_stuck() const {
  const std::int64_t bad = history_.bad_in_a_row;
  const int most = options_.on_bad_step == OnBadStep::kStop ? 1 : options_.max_bad_steps;
  if (options_.on_bad_step == OnBadStep::kRollback || bad == 0 || bad < most) return;
  const bool too_late = options_.timing == UpdateTiming::kOnArrival;
  throw NumericalError(
      "step " + std::to_string(step_.plan.number()) + ": " +
      (bad == 1 ? "the step is bad" : std::to_string(bad) + " steps in a row are bad") + "; " +
      (too_late ? "weights were changed by it" : "weights are those before the first of them") +
      " (lower optimizer.lr, raise run.max_nonfinite_steps, or set run.on_nonfinite)");
}

void Optimizer::finish_step(const Tag& tag) {
  const bool on_arrival = options_.timing == UpdateTiming::kOnArrival;
  const auto accesses = [&] {
    Accesses all = on_arrival ? Accesses{} : writes_scalars();
    add_numbers(all);
    return all;
  };
  host_.host_task("decide", accesses, tag, [this] { decide(); });
  if (!on_arrival) decided_ = host_.record();
  const Event decided = *decided_;
  for (const BlockId b : state_.ids()) {
    const Tag own{tag.phase, tag.pass, b.value(), -1};
    const UpdateTime when = row(b).updated;
    if (when == UpdateTime::kDecided || when == UpdateTime::kSpeculated) {
      updater_of_[b]->decided(b, arrivals_[b], decided, own);
    } else if (when == UpdateTime::kBeforeLoad) {
      waiting_ = {.step_number = submitted_.number(), .decided = decided, .tag = tag};
      waits_[b] = 1;
      weights_.will_update(b);
    }
  }
  host_.host_task("stop_if_stuck", {}, tag, [this] { stop_if_stuck(); });
  if (!waiting_) check_device_updates(submitted_.number(), tag);
}

}  // namespace strata
