// Every schedule is a share of the way from `lr` down to min_lr_ratio * lr. The warm-up before it
// is the same for all of them.

#include "strata/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace strata {
namespace {

/// Returns how far `step` is on the way from `begin` to `end`, in [0, 1].
double progress(std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (step <= begin) return 0.0;
  return std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(end - begin));
}

/// Returns the share of the decay that is left: 1 at its beginning, 0 at its end.
double remaining(const OptimizerSection& o, std::int64_t steps, std::int64_t step) {
  switch (o.lr_schedule) {
    case LrSchedule::kConstant: return 1.0;
    case LrSchedule::kLinear: return 1.0 - progress(step, o.warmup_steps, steps);
    case LrSchedule::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(step, o.warmup_steps, steps)));
    case LrSchedule::kWsd: return 1.0 - std::sqrt(progress(step, steps - o.wsd_decay_steps, steps));
  }
  return 1.0;
}

}  // namespace

double lr_at(const OptimizerSection& optimizer, std::int64_t steps, std::int64_t step) {
  if (step < optimizer.warmup_steps) {
    return optimizer.lr * static_cast<double>(step + 1) /
           static_cast<double>(optimizer.warmup_steps);
  }
  const double m = optimizer.min_lr_ratio;
  return optimizer.lr * (m + (1.0 - m) * remaining(optimizer, steps, step));
}

}  // namespace strata
