// Says what a predicted time is made of, by lane, for predictions of steps and of generation alike.

#pragma once

#include <span>
#include <vector>

#include "strata/predict/prediction.h"

namespace strata {

/// Returns the shares of critical paths' seconds, of which there are those of each lane and, last,
/// those of the submitting thread; largest first.
[[nodiscard]] std::vector<Prediction::Part> critical_parts(std::span<const double> critical_s);

}  // namespace strata
