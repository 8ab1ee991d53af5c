// The weight of a new value is that of a plain mean until the window is full.

#include "strata/optimizer/bad_steps.h"

#include <algorithm>
#include <cmath>

#include "strata/base/log.h"

namespace strata {

namespace {

constexpr double kLeastDeviation = 1e-3;  ///< of the mean

std::string outlier(const char* what, double value, const RunningNumber& before,
                    const std::optional<double>& limit) {
  if (!limit || before.count < kStepsBeforeOutliers) return "";
  const double deviation =
      std::max(std::sqrt(before.variance), kLeastDeviation * std::abs(before.mean));
  const double z = (value - before.mean) / deviation;
  if (!(z > *limit)) return "";
  return fmt::format("{} {:.4g} is {:.1f} standard deviations above its mean {:.4g}", what, value,
                     z, before.mean);
}

}  // namespace

void RunningNumber::add(double value) {
  count = std::min(count + 1, kWindow);
  const double weight = 1.0 / static_cast<double>(count);
  const double distance = value - mean;
  mean += weight * distance;
  variance = (1 - weight) * (variance + weight * distance * distance);
}

std::string what_is_bad(double loss, double grad_norm, const StepStatistics& before,
                        const OutlierLimits& limits) {
  if (!std::isfinite(loss)) return fmt::format("the loss is {}", loss);
  if (!std::isfinite(grad_norm)) return fmt::format("the gradient norm is {}", grad_norm);
  std::string text = outlier("the loss", loss, before.loss, limits.loss);
  if (text.empty()) {
    text = outlier("the gradient norm", grad_norm, before.grad_norm, limits.grad_norm);
  }
  return text;
}

}  // namespace strata
