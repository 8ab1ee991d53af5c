// Lists the candidates of docs/tuning.md, "By predicted time". Each starts from what has been
// chosen so far and changes one key of it, so that whatever was chosen before stays.

#include "plan/candidates.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/narrow.h"

namespace strata {

namespace {

/// Shares of interleaved layers, ascending. Finer ones differ by less than predictions tell.
constexpr double kShares[] = {0.125, 0.25, 0.375, 0.5, 0.75, 1};

}  // namespace

Candidates deferred_candidates(const ChosenSoFar& so_far) {
  const OptimizerSection& o = so_far.given.optimizer;
  const std::int64_t rule = so_far.choices.deferred_units;
  Candidates list{.key = "optimizer.deferred_units", .rule = std::to_string(rule)};
  if (o.deferred_units || o.timing == UpdateTiming::kBeforeUse) return list;
  const auto all = static_cast<std::int64_t>(so_far.setup.model->units.size());
  const std::int64_t most = std::min(all, o.gradient_ring.value_or(all + 2) - 2);
  std::int64_t last = -1;
  for (const std::int64_t halves : {0, 1, 3, 4}) {
    const std::int64_t units = std::min(most, (halves * rule + 1) / 2);
    if (units == rule || units == std::exchange(last, units)) continue;
    list.others.push_back({std::to_string(units), so_far.choices});
    list.others.back().choices.deferred_units = narrow<int>(units);
  }
  return list;
}

Candidates interleave_candidates(const ChosenSoFar& so_far) {
  Candidates list{.key = "optimizer.interleave", .rule = "0", .ordered = true};
  const OptimizerSection& o = so_far.given.optimizer;
  if (o.interleave || o.kind == OptimizerKind::kMuon) return list;
  for (const double share : kShares) {
    list.others.push_back({fmt::format("{}", share), so_far.choices});
    list.others.back().choices.interleave = share;
  }
  return list;
}

Candidates spill_candidates(const ChosenSoFar& so_far) {
  Candidates list{.key = "schedule.spill", .rule = "auto"};
  const ScheduleSection& schedule = so_far.given.schedule;
  if (schedule.spill || schedule.activations) return list;
  const Setup& s = so_far.setup;
  const auto add = [&](std::string value, KeepLevel level, int slots, double worth) {
    list.others.push_back({std::move(value), so_far.choices, worth});
    list.others.back().choices.spill = level;
    list.others.back().choices.activation_slots = slots;
  };
  const KeepLevel off = KeepLevel::kRecompute;
  if (s.kept.levels != s.kept.reach) add("off", off, s.activation_slots, 1);
  if (s.activations.homes(s.activation_slots) > 0 && !schedule.activation_slots) {
    add("off and all boundaries on the device", off, s.activations.keys(), 1);
  }
  if (s.recompute_flops_per_token() > 0 && spills_within_rule(s, so_far.given)) {
    for (const KeepLevel level :
         {KeepLevel::kAttentionOut, KeepLevel::kSelective, KeepLevel::kFull}) {
      add(std::string(name_of(level)), level, s.activation_slots, kWorthChanging);
    }
  }
  return list;
}

bool spills_within_rule(const Setup& setup, const RunConfig& given) {
  return Room(setup.budget, given.memory)
      .allows_spills(setup.use(), setup.plan.bytes(Space::kPinned, "kept.spilled"));
}

}  // namespace strata
