// Counts what validations gain. A gain is a loss below all before it, by however little: noise
// between validations is what patience is for.

#include "strata/checkpoint/validations.h"

#include <cmath>

namespace strata {

void Validations::add(std::int64_t step, double loss) {
  ++without_gain;
  last.reset();
  if (!std::isfinite(loss)) return;
  last = {.step = step, .loss = loss};
  if (best && loss >= best->loss) return;
  best = last;
  without_gain = 0;
}

std::optional<double> Validations::loss_of(std::int64_t step) const {
  return last && last->step == step ? std::optional(last->loss) : std::nullopt;
}

}  // namespace strata
