// The numbers that AdamW has in one update, computed from the options of the run and from how many
// updates came before. It is a pure function; the optimizer calls it on the host lane.

#pragma once

#include <cstdint>

#include "strata/ops/optimizer.h"
#include "strata/optimizer/optimizer_options.h"

namespace strata {

/// This is what tells an update from the others of its run.
struct OneUpdate {
  std::int64_t number = 1;  ///< t of AdamW: it counts the updates that were applied, from 1
  double lr = 0;
  double grad_factor = 1;  ///< the clip factor
  bool applied = true;     ///< false: a step that changes nothing
};

/// Returns the numbers of an update. Its rounding depends on its number and on the run's seed
/// alone; the bias corrections are computed in f64.
[[nodiscard]] AdamWScalars adamw_scalars(const OptimizerOptions& options, const OneUpdate& update);

}  // namespace strata
