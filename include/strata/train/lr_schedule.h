// The learning rate of a step is a pure function of the config and the step's number. `train` asks
// for it when it submits the step; nothing is kept from step to step.

#pragma once

#include <cstdint>

#include "strata/config/config.h"

namespace strata {

/// Returns the learning rate of `step`, 0 <= step < steps, in a run of `steps` steps. Warm-up is
/// linear and reaches `lr` in its last step. After it, with p from 0 (the first step after the
/// warm-up) to 1 (step `steps`, the first that is not run) and m = min_lr_ratio, the rate is:
///   constant  lr
///   linear    lr * (1 - (1 - m) p)
///   cosine    lr * (m + (1 - m) (1 + cos(pi p)) / 2)
///   wsd       lr, then over the last wsd_decay_steps lr * (m + (1 - m) (1 - sqrt(q))), q like p
///             over these steps (Haegele et al., "Scaling Laws and Compute-Optimal Training Beyond
///             Fixed Training Durations", 2024)
[[nodiscard]] double lr_at(const OptimizerSection& optimizer, std::int64_t steps,
                           std::int64_t step);

}  // namespace strata
