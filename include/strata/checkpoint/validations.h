// What the validations of a run have found up to a step. A run that ends when they gain nothing
// more counts by it, and so does one that goes on from a checkpoint, whose manifest has it;
// retention knows by it which checkpoints are the best.
#pragma once

#include <cstdint>
#include <optional>

namespace strata {

/// The loss of a validation, which is finite.
struct ValidatedLoss {
  std::int64_t step = 0;  ///< steps that were done
  double loss = 0;
  bool operator==(const ValidatedLoss&) const = default;
};

struct Validations {
  std::optional<ValidatedLoss> last;  ///< absent: there was none, or its loss was not finite
  std::optional<ValidatedLoss> best;  ///< of the lowest loss; the first of equal ones
  std::int64_t without_gain = 0;      ///< validations since that, or all if there is none

  /// Adds the validation after `step` steps. A loss that is not finite is no gain.
  void add(std::int64_t step, double loss);
  /// Returns the loss of the state after so many steps, if the last validation was of that.
  [[nodiscard]] std::optional<double> loss_of(std::int64_t step) const;
  bool operator==(const Validations&) const = default;
};

}  // namespace strata
