// Sums up the steps of a run.

#include "report/run_totals.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace strata {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kRecentSteps = 32;

double mean_of(std::span<const double> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kUnknown;
}

/// Returns the sums up to each value, beginning with as many mean values as steps came before.
std::vector<double> sums_of(const StepSeries& steps, std::span<const double> values, double unit) {
  std::vector<double> sums;
  sums.reserve(values.size());
  const double mean = mean_of(values);
  const auto before = steps.size() > 0 ? static_cast<double>(steps.step.front() - 1) : 0.0;
  double sum = std::isfinite(mean) ? before * mean : 0;
  for (const double value : values) {
    if (std::isfinite(value)) sum += value;
    sums.push_back(sum / unit);
  }
  return sums;
}

}  // namespace

Curve flushed_of(const RunHistory& run) {
  Curve curve;
  for (const Fp8Step& lost : run.fp8) {
    double largest = std::numeric_limits<double>::quiet_NaN();
    for (const Fp8Worst& of : lost.linears) largest = std::fmax(largest, of.flushed);
    curve.x.push_back(lost.step);
    curve.y.push_back(largest);
  }
  return curve;
}

double median_of(std::span<const double> values) {
  std::vector<double> known;
  std::ranges::copy_if(values, std::back_inserter(known),
                       [](double v) { return std::isfinite(v); });
  if (known.empty()) return kUnknown;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::ranges::nth_element(known, middle);
  if (known.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(known.begin(), middle)) / 2;
}

RunAxes axes_of(const StepSeries& steps) {
  constexpr double kSecondsPerHour = 3600;
  return {.tokens = sums_of(steps, steps.tokens, 1),
          .hours = sums_of(steps, steps.seconds, kSecondsPerHour)};
}

RunTotals totals_of(const RunHistory& run) {
  const StepSeries& s = run.steps;
  const std::size_t recent = std::min(kRecentSteps, s.size());
  RunTotals totals{.loss = mean_of(std::span(s.loss).last(recent)),
                   .tokens = s.size() > 0 ? axes_of(s).tokens.back() : kUnknown,
                   .seconds = 0,
                   .tokens_per_s = median_of(s.tokens_per_s),
                   .targets_per_s = median_of(s.targets_per_s),
                   .mfu = median_of(s.mfu),
                   .mfu_attended = median_of(s.mfu_attended)};
  for (const double seconds : s.seconds) {
    if (std::isfinite(seconds)) totals.seconds += seconds;
  }
  for (const ValidatedStep& validation : run.validations) {
    totals.last_validation = validation;
    if (!std::isfinite(validation.loss)) continue;
    if (!totals.best_validation || validation.loss < totals.best_validation->loss) {
      totals.best_validation = validation;
    }
  }
  return totals;
}

}  // namespace strata
