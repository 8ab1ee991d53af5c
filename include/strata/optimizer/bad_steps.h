// A step is bad if its loss or gradient norm is not finite, or is an outlier: far above what it was
// in the steps before. What is known of those is part of the training state, because it decides
// whether a step is applied: a run that goes on from a checkpoint must decide as it would have.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace strata {

/// What a run does at a bad step; the values of the key `run.on_nonfinite`.
enum class OnBadStep : std::uint8_t {
  kStop,      ///< ends
  kSkip,      ///< leaves out the update, and ends if too many steps in a row are bad
  kRollback,  ///< goes back to its last good checkpoint and leaves out the data since then
};

/// The mean and variance of a number: over all steps at first, then with weights that fall
/// exponentially, so that about the last kWindow steps count (West, "Updating mean and variance
/// estimates", 1979).
struct RunningNumber {
  static constexpr std::int64_t kWindow = 128;

  std::int64_t count = 0;
  double mean = 0;
  double variance = 0;  ///< of the population

  void add(double value);
  bool operator==(const RunningNumber&) const = default;
};

/// What is known of the good steps so far.
struct StepStatistics {
  RunningNumber loss;
  RunningNumber grad_norm;
  bool operator==(const StepStatistics&) const = default;
};

/// How many standard deviations above its mean makes a number an outlier; absent: nothing is one.
struct OutlierLimits {
  std::optional<double> loss;
  std::optional<double> grad_norm;
};

/// No step is an outlier before so many good ones.
inline constexpr std::int64_t kStepsBeforeOutliers = 32;

/// Returns what is wrong with a step of this loss and norm, or an empty text. The deviation is
/// taken as at least a thousandth of the mean, so that numbers that hardly change have no outliers.
[[nodiscard]] std::string what_is_bad(double loss, double grad_norm, const StepStatistics& before,
                                      const OutlierLimits& limits);

/// What the optimizer knows of the steps so far beside the state itself.
struct StepHistory {
  std::int64_t updates = 0;       ///< that were applied: t of AdamW
  std::int64_t bad_in_a_row = 0;  ///< steps up to the last one
  StepStatistics statistics;
  bool operator==(const StepHistory&) const = default;
};

}  // namespace strata
