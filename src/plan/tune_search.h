// Plans and predicts what each candidate of `tune` takes by the rules alone. This is the first part
// of a search, which its refusal shares.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/plan/setup.h"
#include "strata/plan/tune_space.h"
#include "strata/predict/prediction.h"

namespace strata {

/// A candidate by the rules.
struct Sketch {
  TuneKeys keys;
  bool fits = false;
  MemoryUse use{};
  std::size_t short_bytes = 0;       ///< what it takes beyond both limits
  std::optional<StepTimes> times{};  ///< absent: it does not fit, or cannot be predicted
  double recompute_flops = 0;        ///< Setup::recompute_flops_per_token()
  std::size_t spilled_bytes = 0;     ///< Setup::spilled_bytes()
  bool as_before_use = false;        ///< it is speculative, but by the rules updates nothing early
};

/// Plans and predicts the candidates, in their order. Each is counted in `work`, if that is given.
[[nodiscard]] std::vector<Sketch> sketch(const RunConfig& base,
                                         const std::vector<TuneKeys>& candidates,
                                         const PlannedRank& planned, ThreadPool& pool,
                                         WorkProgress* work = nullptr);

/// Returns whether one of the candidates fits, without predicting any.
[[nodiscard]] bool any_fits(const RunConfig& base, const std::vector<TuneKeys>& candidates,
                            const PlannedRank& planned, ThreadPool& pool);

}  // namespace strata
