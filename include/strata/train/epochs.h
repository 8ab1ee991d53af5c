// How long a run is in steps and in epochs: run.epochs says how often the training set is read, and
// everything that goes by steps, such as the learning rate, needs their number first. `train`,
// `plan` and `doctor` work it out here and say both in the same words.
#pragma once

#include <cstdint>
#include <string>

#include "strata/config/config.h"
#include "strata/train/training_data.h"

namespace strata {

/// Returns the steps of so many epochs: epochs * samples / `step_rows`, rounded up, at least 1.
[[nodiscard]] std::int64_t steps_of_epochs(double epochs, std::int64_t samples,
                                           std::int64_t step_rows);

/// Returns the config with run.steps in place of run.epochs, if it has any, for so many ranks.
/// Opens the training set for it. Throws IoError that names a file of it, and ConfigError for rules
/// between keys that its steps break.
[[nodiscard]] RunConfig with_steps_of_epochs(RunConfig config, int ranks);

/// Returns "1,200 steps = 2.97 epochs of 12,932 rows", with those of each source where there are
/// several; empty for synthetic tokens. `set` is that of the config, whose run.steps count.
[[nodiscard]] std::string epochs_text(const RunConfig& config, const TrainingSet& set, int ranks);

}  // namespace strata
