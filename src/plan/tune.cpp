// Searches the candidates of `tune` for the fastest. Every candidate is predicted as the rules
// place it. The fastest of them are placed by prediction, a few at a time, until none of the others
// could be faster: no placement is faster than the device's kernels alone, with everything kept and
// copies and updates that take no time.

#include "strata/plan/tune.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/tune_refusal.h"
#include "plan/tune_search.h"
#include "strata/base/error.h"

namespace strata {

namespace {

/// So many are placed before the best so far is looked at again. It does not depend on the number
/// of threads, so neither does the result.
constexpr std::size_t kBatch = 8;

/// Returns seconds that no step of this shape goes below, however it is placed; 0 if unknown.
double least_step_s(const RunConfig& base, const TuneKeys& keys, const PlannedRank& planned) {
  RunConfig config = keys.put_into(base);
  config.optimizer.timing = UpdateTiming::kBeforeUse;
  config.optimizer.gradient_ring.reset();
  config.optimizer.undo_log.reset();
  config.optimizer.deferred_units.reset();
  config.optimizer.interleave = 0;
  config.schedule.gradient_sums = GradientSums::kHost;
  config.schedule.resident_units = 0;
  config.schedule.spill.reset();
  config.memory.spill_limit.reset();
  if (!config.schedule.activations) config.schedule.activations = KeepLevel::kFull;
  config.checkpoint = CheckpointSection::none();
  constexpr double kInstant = 1e9;
  config.hardware.link_gbs = kInstant;
  config.hardware.host_gbs = kInstant;
  PlannedRank free = planned;
  free.budget.device_limit.reset();
  free.budget.host_limit.reset();
  const Setup setup = plan_setup(config, choices_by_rule(config), free);
  return predict_step_s(setup, setup.rated(planned.device)).value_or(0);
}

/// The ways to cut a step and to multiply, and the seconds that none of their steps goes below.
class Bounds {
 public:
  Bounds(const RunConfig& base, const std::vector<Sketch>& sketches, const PlannedRank& planned,
         ThreadPool& pool) {
    std::vector<TuneKeys> shapes;
    for (const Sketch& s : sketches) {
      if (s.times && seconds_.emplace(shape_of(s.keys), 0).second) shapes.push_back(s.keys);
    }
    std::vector<double> found(shapes.size());
    pool.parallel_for(
        static_cast<std::int64_t>(shapes.size()), 1, [&](std::int64_t from, std::int64_t to) {
          for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
            found[i] = least_step_s(base, shapes[i], planned);
          }
        });
    for (std::size_t i = 0; i < shapes.size(); ++i) seconds_[shape_of(shapes[i])] = found[i];
  }

  [[nodiscard]] double of(const TuneKeys& keys) const { return seconds_.at(shape_of(keys)); }
  [[nodiscard]] std::size_t predicted() const { return seconds_.size(); }

 private:
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, Products, Form>;
  static Shape shape_of(const TuneKeys& keys) {
    return {keys.rows, keys.sub_batches, keys.passes, keys.numbers.products,
            keys.numbers.base_format};
  }

  std::map<Shape, double> seconds_;
};

/// A candidate whose placement was decided by prediction.
struct Placed {
  std::size_t order = 0;  ///< among the candidates: what is preferred of equal speed comes first
  TuneKeys keys;
  Placement placement;
  std::size_t predicted = 0;  ///< steps that were predicted to decide it
  double step_s = std::numeric_limits<double>::infinity();
};

bool among_the_best(const Placed& placed, double best_s) {
  return placed.step_s <= best_s * (1 + kEquallyFast);
}

class TuneSearch {
 public:
  TuneSearch(const RunConfig& base, const PlannedRank& planned, ThreadPool& pool,
             const TuneLimits& limits, const std::vector<Sketch>& sketches)
      : base_(base), planned_(planned), pool_(pool), limits_(limits), sketches_(sketches) {}

  /// Places the candidates that may be the fastest, and adds to `predicted` how many steps it took.
  std::vector<Placed> place(std::size_t& predicted) && {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < sketches_.size(); ++i) {
      if (sketches_[i].times && !has_twin(sketches_[i])) left.push_back(i);
    }
    std::ranges::stable_sort(left, {}, [&](std::size_t i) { return sketches_[i].times->step_s; });
    if (limits_.exhaustive) {
      place_all(left);
      predicted += predicted_;
      return std::move(placed_);
    }
    const Bounds bounds(base_, sketches_, planned_, pool_);
    while (!left.empty() && placed_.size() < limits_.placed) {
      const std::size_t count = std::min({kBatch, left.size(), limits_.placed - placed_.size()});
      place_all({left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count)});
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
      std::erase_if(left, [&](std::size_t i) {
        return bounds.of(sketches_[i].keys) > best_s_ * (1 - kEquallyFast);
      });
    }
    predicted += bounds.predicted() + predicted_;
    return std::move(placed_);
  }

 private:
  /// Returns whether another candidate is the same run by a simpler name.
  [[nodiscard]] bool has_twin(const Sketch& sketch) const {
    if (!sketch.as_before_use) return false;
    TuneKeys twin = sketch.keys;
    twin.timing = UpdateTiming::kBeforeUse;
    return std::ranges::find(sketches_, twin, &Sketch::keys) != sketches_.end();
  }

  void place_all(const std::vector<std::size_t>& which) {
    std::vector<Placed> found(which.size());
    pool_.parallel_for(
        static_cast<std::int64_t>(which.size()), 1, [&](std::int64_t from, std::int64_t to) {
          for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
            found[i] = place_one(which[i]);
          }
        });
    for (Placed& placed : found) {
      best_s_ = std::min(best_s_, placed.step_s);
      predicted_ += placed.predicted;
      placed_.push_back(std::move(placed));
    }
    // What is far behind will not be shown, and its setup takes memory. Of those that are as fast
    // as the fastest any may be: which of them are shown goes by preference, in the end.
    std::ranges::stable_sort(placed_, {}, &Placed::step_s);
    for (std::size_t i = limits_.shown; i < placed_.size(); ++i) {
      if (!among_the_best(placed_[i], best_s_)) placed_[i].placement = {};
    }
  }

  [[nodiscard]] Placed place_one(std::size_t index) const {
    const Sketch& sketch = sketches_[index];
    const RunConfig config = sketch.keys.put_into(base_);
    std::size_t predicted = 0;
    const auto step_s = [&](const Setup& s) {
      ++predicted;
      return predict_step_s(s, s.rated(planned_.device));
    };
    // What recomputes and copies no less has kernels that run no shorter.
    std::function<double(const Setup&)> least_s = [&](const Setup& s) {
      const bool less = s.recompute_flops_per_token() < sketch.recompute_flops ||
                        s.spilled_bytes() < sketch.spilled_bytes;
      return less ? 0 : sketch.times->compute_s;
    };
    if (limits_.exhaustive) least_s = nullptr;
    Placed placed{
        .order = index,
        .keys = sketch.keys,
        .placement = choose_placement(
            config, {.setup = [&](const PlanChoices& c) { return make_setup(config, c, planned_); },
                     .step_s = step_s,
                     .rule_s = sketch.times->step_s,
                     .least_s = least_s})};
    placed.step_s = placed.placement.step_s.value();
    placed.predicted = predicted;
    return placed;
  }

  const RunConfig& base_;
  const PlannedRank& planned_;
  ThreadPool& pool_;
  const TuneLimits& limits_;
  const std::vector<Sketch>& sketches_;
  std::vector<Placed> placed_;
  std::size_t predicted_ = 0;
  double best_s_ = std::numeric_limits<double>::infinity();
};

/// Puts the fastest first; those that are as fast as the fastest stand in the order of preference.
void rank(std::vector<Placed>& placed) {
  double best_s = placed.front().step_s;
  for (const Placed& p : placed) best_s = std::min(best_s, p.step_s);
  std::ranges::stable_sort(placed, {}, [&](const Placed& p) {
    return std::pair(among_the_best(p, best_s) ? 0.0 : p.step_s, p.order);
  });
}

}  // namespace

TuneResult tune(const RunConfig& base, const TuneSpace& space, const PlannedRank& planned,
                ThreadPool& pool, const TuneLimits& limits, WorkProgress* work) {
  const std::vector<TuneKeys> candidates = tune_candidates(base, space);
  if (candidates.empty()) {
    base.validate("the config");  // else it says which keys leave no candidate
    throw ConfigError(
        "tune: the keys that are given cannot make a step of so many tokens; give fewer of "
        "schedule.rows, schedule.sub_batches and schedule.passes, or another --tokens");
  }
  if (work != nullptr) work->begin("predicting", {candidates.size(), "candidates"});
  const std::vector<Sketch> sketches = sketch(base, candidates, planned, pool, work);
  TuneResult result{.best = {}, .candidates = candidates.size(), .unknown = {}};
  for (const Sketch& s : sketches) result.fitting += s.fits ? 1 : 0;
  if (result.fitting == 0) {
    if (work != nullptr) work->begin("looking for changes that would fit");
    throw OutOfMemory(tune_refusal({base, space, planned, candidates, sketches}, pool));
  }
  const auto fitting = std::ranges::find_if(sketches, &Sketch::fits);
  if (!fitting->times) {
    const RunConfig config = fitting->keys.put_into(base);
    const Setup setup = plan_setup(config, choices_by_rule(config), planned);
    result.unknown = predict(setup, setup.rated(planned.device)).unknown;
    result.to_learn_from = fitting->keys;
    return result;
  }
  if (work != nullptr) work->begin("deciding the placement of the fastest");
  result.predicted = result.fitting + std::min(result.fitting, limits.shown);
  std::vector<Placed> placed =
      TuneSearch(base, planned, pool, limits, sketches).place(result.predicted);
  result.placed = placed.size();
  rank(placed);
  placed.resize(std::min(placed.size(), limits.shown));
  for (Placed& p : placed) {
    Tuned& tuned = result.best.emplace_back();
    tuned.keys = p.keys;
    tuned.config = p.keys.put_into(base);
    tuned.placement = std::move(p.placement);
    const Setup& setup = tuned.placement.setup;
    tuned.prediction = predict(setup, setup.rated(planned.device));
  }
  return result;
}

}  // namespace strata
