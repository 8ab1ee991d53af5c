// Standard errors of a mean of yes and no, and of a ratio of two sums over windows.

#include "strata/complete/estimate.h"

#include <algorithm>
#include <cmath>

namespace strata {

Estimate mean_loss(std::span<const WindowLoss> windows) {
  double nats = 0;
  double tokens = 0;
  for (const WindowLoss& window : windows) {
    nats += window.nats;
    tokens += window.tokens;
  }
  Estimate mean{.value = nats / tokens};
  if (windows.size() < 2) return mean;
  double squares = 0;
  for (const WindowLoss& window : windows) {
    const double off = window.nats - mean.value * window.tokens;
    squares += off * off;
  }
  const auto count = static_cast<double>(windows.size());
  mean.standard_error = std::sqrt(squares * count / (count - 1)) / tokens;
  return mean;
}

Estimate share_of(const std::vector<bool>& outcomes) {
  const auto count = static_cast<double>(outcomes.size());
  const auto ones = static_cast<double>(std::ranges::count(outcomes, true));
  Estimate mean{.value = ones / count};
  if (outcomes.size() > 1) {
    mean.standard_error = std::sqrt(mean.value * (1 - mean.value) / (count - 1));
  }
  return mean;
}

}  // namespace strata
