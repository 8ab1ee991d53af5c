// Estimates from samples: a mean, and how far it may be off because another sample would have been
// drawn. `evaluate` says so of losses and of shares of right answers.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace strata {

/// An estimate from a sample.
struct Estimate {
  double value = 0;
  std::optional<double> standard_error{};  ///< absent: there is one of it only
};

/// The sums of the tokens of a window whose loss counts.
struct WindowLoss {
  double nats = 0;
  double tokens = 0;
};

/// Returns the mean loss of a token, where there is a window and each has a token. The error takes
/// windows as drawn, because tokens of one window have much in common: it is that of a ratio of
/// means.
[[nodiscard]] Estimate mean_loss(std::span<const WindowLoss> windows);
/// Returns the share of what is true, where there is one at least.
[[nodiscard]] Estimate share_of(const std::vector<bool>& outcomes);

}  // namespace strata
