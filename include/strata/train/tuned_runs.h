// Runs that `tune --measure` makes of the best candidates of a search, on this machine and one
// after the other. The rates that a run had are kept for later predictions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/plan/tune.h"

namespace strata {

/// What was measured of one candidate.
struct TunedRun {
  TuneKeys keys;
  double predicted_s = 0;  ///< a step amid many; 0: unknown
  double step_s = 0;       ///< the median of the measured steps
  double tokens_per_s = 0;
  HardwareSection rates;  ///< that its traced work had
  std::string device;     ///< on which it ran
  std::int64_t threads = 0;
  std::string unsteady;  ///< why its rates are not worth keeping; empty: they are
};

/// Measures steps of a candidate on synthetic tokens and, if the model has weights, on random ones
/// instead. Blocks. Throws what a session throws.
[[nodiscard]] TunedRun measure_tuned(const RunConfig& config, std::int64_t steps, Ranks& ranks);

/// Stores rates for later predictions, unless the run was disturbed. Returns a line that says
/// where, or why not: what cannot be stored is measured in vain, but no failure. Where it is a
/// warning, the log has it, and the line is empty.
[[nodiscard]] std::string store_seen_rates(const RunConfig& config, const TunedRun& run);

}  // namespace strata
