// The search of `tune`: which values of TuneKeys a run is predicted to be fastest with, on a
// machine of which the limits and the rates are known. Nothing is run. It is a pure function of its
// arguments, whatever number of threads it has.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/config/config.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/setup.h"
#include "strata/plan/tune_space.h"
#include "strata/predict/prediction.h"

namespace strata {

/// How far the search goes.
struct TuneLimits {
  /// So many candidates at most have their placement decided by prediction, which takes ten times
  /// as long as predicting what the rules say.
  std::size_t placed = 16;
  std::size_t shown = 8;    ///< of the best ones everything is predicted
  bool exhaustive = false;  ///< all that fit are placed, whatever bounds say; for tests
};

/// A candidate that fits, with everything decided.
struct Tuned {
  TuneKeys keys;
  RunConfig config;       ///< the given one with these keys; what the planner decides stays open
  Placement placement;    ///< its setup stays within the limits
  Prediction prediction;  ///< of that setup
};

struct TuneResult {
  std::vector<Tuned> best;  ///< the first is the choice; empty if `unknown` says why
  std::size_t candidates = 0;
  std::size_t fitting = 0;
  std::size_t placed = 0;
  std::size_t predicted = 0;                ///< steps that were predicted, which is what it costs
  std::string unknown;                      ///< why no step can be predicted
  std::optional<TuneKeys> to_learn_from{};  ///< then a candidate that fits, to measure rates with
};

/// Two candidates whose times differ by less than this share count as equally fast.
inline constexpr double kEquallyFast = 0.003;

/// Returns the best candidates of a space, the fastest first. `base` says all that is not searched.
/// Throws OutOfMemory if none fits, with the memory that binds and the cheapest changes that would
/// fit; ConfigError if the space has no candidate. `work`, if it is given, is told how far it is.
[[nodiscard]] TuneResult tune(const RunConfig& base, const TuneSpace& space,
                              const PlannedRank& planned, ThreadPool& pool,
                              const TuneLimits& limits = {}, WorkProgress* work = nullptr);

}  // namespace strata
