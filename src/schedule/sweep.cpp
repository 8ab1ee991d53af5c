// The algorithm of a sweep, as it stands in docs/generation.md. Two sweeps' units are announced, so
// that the first weights of the next sweep are loaded while the last ones of this compute.

#include "strata/schedule/sweep.h"

#include <utility>

#include "strata/schedule/walk.h"

namespace strata {

void Sweep::run(const SweepPlan& plan) {
  std::vector<UnitId> units = unit_order({.layers = layers_, .cells = 1}, Extent::kForward);
  const std::vector<UnitId> next = units;
  units.insert(units.end(), next.begin(), next.end());
  parts_.weights.begin_pass(units);
  parts_.kv.begin_sweep(plan.visits);
  TokenLease tokens = parts_.tokens.upload(compute_, {.phase = "sweep"});
  embedding(plan, tokens);
  for (int l = 0; l < layers_; ++l) layer(l, plan, tokens);
  head(plan, tokens);
  parts_.tokens.deliver(std::move(tokens), {.phase = "sweep"});
}

UnitLease Sweep::acquire(UnitId unit) {
  const Tag tag{.phase = "sweep", .unit = unit.value()};
  UnitLease weights = parts_.weights.acquire(unit, compute_, tag);
  parts_.weights.prefetch({.phase = "sweep"});
  return weights;
}

void Sweep::embedding(const SweepPlan& plan, const TokenLease& tokens) {
  const UnitLease weights = acquire(Walk::embedding());
  parts_.model.embedding(compute_, weights.views.embedding, tokens.ids.slice_rows(0, plan.tokens),
                         x_.slice_rows(0, plan.tokens),
                         {.phase = "sweep", .unit = Walk::embedding().value()});
}

void Sweep::layer(int layer, const SweepPlan& plan, const TokenLease& tokens) {
  const UnitId unit = Walk::unit_of(layer);
  const UnitLease weights = acquire(unit);
  auto cell = plan.cells.begin();
  for (std::size_t visit = 0; visit < plan.visits.size(); ++visit) {
    Tag tag{.phase = "sweep", .unit = unit.value(), .cell = plan.visits[visit].group};
    KvLease kv = parts_.kv.acquire(layer, visit, compute_, tag);
    parts_.kv.prefetch(tag);
    for (; cell != plan.cells.end() && cell->visit == visit; ++cell) {
      const ForwardCell part{
          .positions = tokens.positions.slice_rows(cell->begin, cell->tokens),
          .rows = tokens.rows.slice_rows(cell->begin, cell->tokens),
          .segments = tokens.segments.slice_rows(cell->first_segment, cell->segments),
          .singles = cell->singles,
          .longest = cell->longest,
          .single_pairs = cell->single_pairs,
          .prompt_pairs = cell->prompt_pairs};
      parts_.model.layer(compute_, weights.views.layer, part, kv.views,
                         x_.slice_rows(cell->begin, cell->tokens), tag);
    }
    parts_.kv.keep(std::move(kv), compute_, tag);
  }
}

void Sweep::head(const SweepPlan& plan, const TokenLease& tokens) {
  const UnitId unit = Walk{.layers = layers_, .cells = 1}.head();
  const UnitLease weights = acquire(unit);
  if (plan.sampled == 0) return;
  const Tag tag{.phase = "sweep", .unit = unit.value()};
  const ConstTensorView x = x_.slice_rows(0, plan.tokens);
  const SampledTokens& all = tokens.sampled;
  const SampledTokens sampled{
      .after = all.after.slice_rows(0, plan.sampled),
      .rows = all.rows.slice_rows(0, plan.sampled),
      .seen = plan.seen > 0 ? all.seen.slice_rows(0, plan.seen) : ConstTensorView{},
      .token = all.token.slice_rows(0, plan.sampled),
      .logprob = all.logprob.slice_rows(0, plan.sampled)};
  if (plan.score) {
    parts_.model.score(compute_, weights.views.head, x, sampled.after,
                       tokens.targets.slice_rows(0, plan.sampled), sampled.logprob,
                       tokens.lse.slice_rows(0, plan.sampled), tag);
  } else {
    parts_.model.sample(compute_, weights.views.head, x, sampled, tag);
  }
}

}  // namespace strata
