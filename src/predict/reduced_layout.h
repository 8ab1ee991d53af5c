// A smaller run that stands for a large one, so that a prediction of any run costs about the same.
// Sub-batches of a layer are alike, and so are chunks of what is long, neighbouring layers, and the
// passes between the first and the last: fewer are submitted, and a timeline gives each of them but
// passes the time of several.

#pragma once

#include "strata/engine/training_layout.h"

namespace strata {

/// How large a step is, and how it is cut.
struct StepSize {
  int layers = 1;
  int cells = 1;
  int passes = 1;
  int chunk_factor = 1;  ///< so many times as long as in a run are chunks of what is long
};

/// Returns the size of the step of a run.
[[nodiscard]] StepSize whole_size(const TrainingLayout& layout);

/// Returns what the cost of recording a step of this size goes by: the units and sub-batches of
/// all its passes, where a few chunks are as much work as a sub-batch.
[[nodiscard]] double step_cells(const TrainingLayout& layout, const StepSize& size);

/// Returns the size of the step to record for one that has more than so many: each of its layers,
/// sub-batches and chunks may stand for several, and there are a few of its passes.
[[nodiscard]] StepSize recorded_size(const TrainingLayout& layout, double whole_cells);

/// Returns the layout of a step of this size. Slots, what cells keep and spill, and where and when
/// blocks are updated are in proportion; everything else stays as it is, on rank 0. No number is 0
/// or more than there are.
[[nodiscard]] TrainingLayout reduced_layout(const TrainingLayout& whole, const StepSize& size);

}  // namespace strata
