// Makes the choices that need no look at memory or time. The planner starts from these, and stays
// with them where nothing can be predicted.

#include "strata/plan/plan_choices.h"

#include <algorithm>

#include "strata/base/narrow.h"

namespace strata {

namespace {

/// Returns a third of the blocks, the forward's share of a step's compute, as far as a gradient
/// ring holds their gradients. An early update that may be undone moves about twice the bytes, so
/// half of the blocks wait where updates are speculative.
std::int64_t deferred_by_rule(const OptimizerSection& o, std::int64_t layers) {
  if (o.timing == UpdateTiming::kSpeculative) return (layers + 2) / 2;
  const std::int64_t third = (layers + 2) / 3;
  return std::min(third, o.gradient_ring.value_or(third + 2) - 2);
}

}  // namespace

PlanChoices choices_by_rule(const RunConfig& given) {
  const OptimizerSection& o = given.optimizer;
  const std::int64_t deferred =
      o.deferred_units.value_or(deferred_by_rule(o, given.model.llama.num_hidden_layers));
  PlanChoices choices{.deferred_units = narrow<int>(deferred),
                      .interleave = o.interleave.value_or(0),
                      .spill = given.schedule.spill};
  if (given.schedule.activation_slots) {
    choices.activation_slots = narrow<int>(*given.schedule.activation_slots);
  }
  return choices;
}

}  // namespace strata
