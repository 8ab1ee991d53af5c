// Candidates without a ring come first: they say whether one with a ring is worth its prediction.

#include "plan/tune_search.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

#include "plan/require_fit.h"
#include "strata/plan/prediction.h"

namespace strata {

namespace {

/// Plans one candidate by the rules and, if it fits, predicts its step.
void draw(const RunConfig& base, const PlannedRank& planned, Sketch& sketch) {
  const RunConfig config = sketch.keys.put_into(base);
  const Setup setup = plan_setup(config, choices_by_rule(config), planned);
  sketch.use = setup.use();
  sketch.fits = shortage_of(setup) == Shortage::kNone;
  sketch.short_bytes = Room(planned.budget, config.memory).beyond_limits(sketch.use);
  if (sketch.fits) sketch.step_s = predict_step_s(setup, planned.device);
}

/// A plan without a ring that leaves a quarter of the host free spills what it wants to spill, and
/// keeps on the host what it wants to keep there.
bool leaves_much_of_host(const Sketch& sketch, const Budget& budget) {
  if (!sketch.fits) return false;
  return !budget.host_limit || sketch.use.host_bytes / 3 <= *budget.host_limit / 4;
}

void for_each(std::size_t count, ThreadPool& pool, const std::function<void(std::size_t)>& body) {
  pool.parallel_for(static_cast<std::int64_t>(count), 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) body(static_cast<std::size_t>(i));
  });
}

}  // namespace

std::vector<Sketch> sketch(const RunConfig& base, const std::vector<TuneKeys>& candidates,
                           const PlannedRank& planned, ThreadPool& pool,
                           UselessRings useless) {
  std::vector<Sketch> sketches(candidates.size());
  std::vector<std::size_t> first, later;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    sketches[i].keys = candidates[i];
    (candidates[i].gradient_ring ? later : first).push_back(i);
  }
  for_each(first.size(), pool, [&](std::size_t i) { draw(base, planned, sketches[first[i]]); });
  const auto has_nothing_to_save = [&](std::size_t index) {
    TuneKeys without = candidates[index];
    without.gradient_ring.reset();
    without.gradient_sums = base.schedule.gradient_sums;
    return std::ranges::any_of(first, [&](std::size_t i) {
      return sketches[i].keys == without && leaves_much_of_host(sketches[i], planned.budget);
    });
  };
  if (useless == UselessRings::kLeaveOut) std::erase_if(later, has_nothing_to_save);
  for_each(later.size(), pool, [&](std::size_t i) { draw(base, planned, sketches[later[i]]); });
  return sketches;
}

bool any_fits(const RunConfig& base, const std::vector<TuneKeys>& candidates,
              const PlannedRank& planned, ThreadPool& pool) {
  std::atomic<bool> found = false;
  for_each(candidates.size(), pool, [&](std::size_t i) {
    if (found) return;
    const RunConfig config = candidates[i].put_into(base);
    const Setup setup = plan_setup(config, choices_by_rule(config), planned);
    if (shortage_of(setup) == Shortage::kNone) found = true;
  });
  return found;
}

}  // namespace strata
