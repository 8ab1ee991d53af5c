// A smaller run that stands for a large one, so that a prediction of any run costs about the same.
// Sub-batches of a layer are alike, and so are the passes between the first and the last: fewer are
// submitted, and a timeline gives each sub-batch the time of several.

#pragma once

#include <cstdint>

#include "strata/plan/setup.h"

namespace strata {

/// Returns what the cost of recording a step goes by: the units and sub-batches of all its passes.
[[nodiscard]] double step_cells(const Setup& setup);

/// Returns the setup with fewer sub-batches and passes. Slots and what cells keep and spill are
/// in the same proportion, and everything else stays as it is. Neither number is 0 or more than
/// there are.
[[nodiscard]] Setup reduced_setup(const Setup& whole, int cells, int passes);

}  // namespace strata
