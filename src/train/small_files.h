// The small files of a checkpoint: what its model leaves with beside the weights, and the plans of
// matrix products. They do not change in a run, which makes them once, before its first step.

#pragma once

#include <vector>

#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/plan/setup.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

/// Returns the plans of the run, and the files of the model's folder that hold no weights. Throws
/// on all ranks if one cannot read them; all ranks call it.
[[nodiscard]] std::vector<SmallFile> agreed_small_files(const CheckpointPlace& place,
                                                        const RunConfig& config, const Setup& setup,
                                                        const CheckpointLayout& layout,
                                                        Ranks& ranks);

/// Writes the plans of matrix products that the checkpoint holds to the run folder, unless either
/// has none, or the folder its own: a run goes on with the bits that it had. Throws on all ranks if
/// one cannot read them: DamagedCheckpoint if they are damaged, else AgreedError, or IoError on a
/// rank that is alone; and IoError if they cannot be written. All ranks call it.
void restore_plans(const CheckpointPlace& place, Ranks& ranks);

}  // namespace strata
