// Says what a user of `tune` is told where no candidate fits: the memory that binds, and for each
// change that would fit how fast the run would be.

#pragma once

#include <string>
#include <vector>

#include "plan/tune_search.h"
#include "strata/base/thread_pool.h"
#include "strata/plan/setup.h"
#include "strata/plan/tune_space.h"

namespace strata {

/// A search that found nothing.
struct RefusedSearch {
  const RunConfig& base;
  const TuneSpace& space;
  const PlannedRank& planned;
  const std::vector<TuneKeys>& candidates;
  const std::vector<Sketch>& sketches;
};

/// Returns the text. It takes about as long as a few searches without placements.
[[nodiscard]] std::string tune_refusal(const RefusedSearch& search, ThreadPool& pool);

}  // namespace strata
