// A smaller run that stands for a large one, so that a prediction of any run costs about the same.
// Sub-batches of a layer are alike, and so are the passes between the first and the last: fewer are
// submitted, and a timeline gives each sub-batch the time of several.

#pragma once

#include <cstdint>

#include "strata/plan/setup.h"

namespace strata {

/// Returns what the cost of recording a step goes by: the units and sub-batches of all its passes.
[[nodiscard]] double step_cells(const Setup& setup);

/// Returns likewise the share of one unit in one pass, in sub-batches.
[[nodiscard]] double cells_of_unit(const Setup& setup);

/// How large a step is.
struct StepSize {
  int layers = 1;
  int cells = 1;
  int passes = 1;
};

/// Returns the setup of a step of this size. Slots, what cells keep and spill, and where and when
/// blocks are updated are in proportion; everything else stays as it is. No number is 0 or more
/// than there are.
[[nodiscard]] Setup reduced_setup(const Setup& whole, const StepSize& size);

}  // namespace strata
