// Computes the figures that sum a run up.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "strata/report/curve.h"
#include "strata/report/run_history.h"

namespace strata {

/// Everything is NaN, or absent, where no step tells it.
struct RunTotals {
  double loss = 0;           ///< mean of the last 32 steps, as train says it at its end
  double tokens = 0;         ///< of all steps, those before the first that is known included
  double seconds = 0;        ///< of the steps that are known
  double tokens_per_s = 0;   ///< median of the steps
  double targets_per_s = 0;  ///< median of the steps
  double mfu = 0;            ///< median of the steps
  double mfu_attended = 0;   ///< median, without the part of attention that masks leave out
  std::optional<ValidatedStep> last_validation{};
  std::optional<ValidatedStep> best_validation{};
};

[[nodiscard]] RunTotals totals_of(const RunHistory& run);

/// What the steps of a run lie over beside their number: the sums up to each step.
struct RunAxes {
  std::vector<double> tokens{};
  std::vector<double> hours{};
};
/// Returns the axes of a run. What was trained before the first step that is known, as where a run
/// goes on from another folder, counts as steps of the same size and length.
[[nodiscard]] RunAxes axes_of(const StepSeries& steps);

/// Returns the largest share of any operand that rounding to e4m3 made zero, by step.
[[nodiscard]] Curve flushed_of(const RunHistory& run);

/// Returns the median of the values that are finite, or NaN.
[[nodiscard]] double median_of(std::span<const double> values);

}  // namespace strata
