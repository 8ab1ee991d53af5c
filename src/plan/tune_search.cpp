// Plans and predicts all candidates of a search, on several threads. Candidates are independent of
// each other, so each is a chunk of a parallel loop. Planning and predicting are pure functions,
// and every prediction has a machine of its own on paper.

#include "plan/tune_search.h"

#include <atomic>
#include <cstdint>
#include <functional>

#include "plan/require_fit.h"

namespace strata {

namespace {

/// Plans one candidate by the rules and, if it fits, predicts its step.
void draw(const RunConfig& base, const PlannedRank& planned, Sketch& sketch) {
  const RunConfig config = sketch.keys.put_into(base);
  const Setup setup = plan_setup(config, choices_by_rule(config), planned);
  sketch.use = setup.use();
  sketch.fits = shortage_of(setup) == Shortage::kNone;
  sketch.short_bytes = Room(planned.budget, config.memory).beyond_limits(sketch.use);
  if (sketch.fits) sketch.times = predict_times(setup, setup.rated(planned.device));
  sketch.recompute_flops = setup.recompute_flops_per_token();
  sketch.spilled_bytes = setup.spilled_bytes();
  sketch.as_before_use = !setup.speculation_warning().empty();
}

void for_each(std::size_t count, ThreadPool& pool, const std::function<void(std::size_t)>& body) {
  pool.parallel_for(static_cast<std::int64_t>(count), 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) body(static_cast<std::size_t>(i));
  });
}

}  // namespace

std::vector<Sketch> sketch(const RunConfig& base, const std::vector<TuneKeys>& candidates,
                           const PlannedRank& planned, ThreadPool& pool, WorkProgress* work) {
  std::vector<Sketch> sketches(candidates.size());
  for_each(candidates.size(), pool, [&](std::size_t i) {
    sketches[i].keys = candidates[i];
    draw(base, planned, sketches[i]);
    count_work(work, 1);
  });
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
