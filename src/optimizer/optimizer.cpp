// Submits norms, decision and updates of a step in an order that does not depend on data. The host
// lane runs the tasks one after another, so what they share (the judge, the norms, the scalars)
// needs no lock.

#include "strata/optimizer/optimizer.h"

#include <array>
#include <new>
#include <utility>

#include "strata/base/log.h"
#include "strata/optimizer/adamw_scalars.h"

namespace strata {

Optimizer::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : norms(layout, plan, memory),
      scalars(memory.allocate(Space::kPinned, "optimizer.scalars", sizeof(AdamWScalars))),
      updates(layout, plan, memory) {}

Optimizer::Optimizer(const OptimizerParts& parts, const OptimizerOptions& options,
                     std::function<void(const StepOutcome&)> report)
    : state_(parts.state),
      world_(parts.world),
      host_(parts.arenas.device().stream(Lane::kHost)),
      options_(options),
      report_(std::move(report)),
      memory_(parts.state.layout(), parts.state.plan(), parts.arenas),
      scalars_(new(memory_.scalars) AdamWScalars),
      rule_(parts.state.layout(), options),
      judge_(options),
      norms_(parts.state, parts.host_kernels, host_, memory_.norms),
      updates_(parts,
               {.rule = rule_,
                .scalars = scalars_,
                .judge = judge_,
                .muon_momentum = options.muon_momentum},
               std::move(memory_.updates)) {}

Accesses Optimizer::writes_scalars() const {
  return {{}, {{reinterpret_cast<const std::byte*>(scalars_), sizeof(AdamWScalars)}}};
}

void Optimizer::begin_step(const StepPlan& plan, const Tag& tag) {
  updates_.begin_step(plan);
  const auto accesses = [&] {
    Accesses all;
    updates_.add_numbers(all);
    return all;
  };
  host_.host_task("begin_step", accesses, tag, [this, plan] {
    judge_.begin(plan);
    updates_.expect(scalars_of(1.0, judge_.expects_update()));
  });
  decided_.reset();
}

/// Returns the numbers of this step's update, which is the next one if it is applied.
AdamWScalars Optimizer::scalars_of(double factor, bool apply) const {
  return adamw_scalars(options_, {.number = judge_.history().updates + (apply ? 1 : 0),
                                  .lr = judge_.step().lr,
                                  .grad_factor = factor,
                                  .applied = apply});
}

void Optimizer::set_scalars(double factor, bool apply) {
  *scalars_ = scalars_of(factor, apply);
  if (apply) judge_.count_update();
}

void Optimizer::arrived(Arrival arrival, const Tag& tag) {
  const BlockId block = arrival.block;
  const Tag own{tag.phase, tag.pass, state_.layout().blocks[block].unit.value(), -1};
  const bool on_arrival = options_.timing == UpdateTiming::kOnArrival;
  // The first arrival comes after the loss of the last pass.
  if (on_arrival && !decided_) {
    host_.host_task(
        "set_scalars", [&] { return writes_scalars(); }, tag,
        [this] { set_scalars(1.0, judge_.expects_update()); });
    decided_ = host_.record();
  }
  host_.wait(arrival.event, WaitFor::kArrived);
  if (arrival.slot) arrival.slot.use(host_, WaitFor::kArrived);
  norms_.measure(arrival, own);
  if (on_arrival) require_finite(block, own);
  updates_.arrived(std::move(arrival), decided_, tag);
}

/// Submits the check of a gradient whose update may come before the step is decided.
void Optimizer::require_finite(BlockId block, const Tag& tag) {
  const BlockPlan& row = state_.plan(block);
  const bool held = !row.updated_on_device() || row.updated != UpdateTime::kOnArrival;
  host_.host_task("require_finite", {}, tag, [this, block, held] {
    judge_.require_finite({.block = state_.layout().blocks[block].name,
                           .squared_norm = norms_.squared(block),
                           .held = held});
  });
}

/// Runs as a host task: sums over blocks and ranks, has the step judged, and tells everybody.
void Optimizer::decide() {
  const LossSums& losses = judge_.loss_sums();
  std::array<double, 5> sums{norms_.sum(), losses.loss, losses.chosen_reward,
                             losses.rejected_reward, losses.preferred};
  world_.all_reduce_sum(sums, Channel::kHost);
  StepOutcome outcome = judge_.decide({.squared_norm = sums[0],
                                       .losses = {.loss = sums[1],
                                                  .chosen_reward = sums[2],
                                                  .rejected_reward = sums[3],
                                                  .preferred = sums[4]}});
  if (options_.timing != UpdateTiming::kOnArrival) {
    set_scalars(judge_.clip_factor(outcome.grad_norm), outcome.applied);
  }
  outcome.missed = !updates_.settle(*scalars_);
  outcome.history = judge_.history();
  report_(outcome);
  const StepPlan& step = judge_.step();
  if (!outcome.bad.empty()) {
    log::warn("step {}: {}{}", step.number(), outcome.bad,
              outcome.applied ? "" : "; the update is skipped");
  } else if (step.valid_tokens == 0) {
    log::warn("step {}: no token has a target; nothing was updated", step.number());
  }
}

void Optimizer::finish_step(const Tag& tag) {
  const bool on_arrival = options_.timing == UpdateTiming::kOnArrival;
  const auto accesses = [&] {
    Accesses all = on_arrival ? Accesses{} : writes_scalars();
    updates_.add_numbers(all);
    return all;
  };
  host_.host_task("decide", accesses, tag, [this] { decide(); });
  if (!on_arrival) decided_ = host_.record();
  updates_.decided(decided_.value(), tag);
  host_.host_task("stop_if_stuck", {}, tag, [this] { judge_.stop_if_stuck(); });
  updates_.end_step(tag);
}

}  // namespace strata
