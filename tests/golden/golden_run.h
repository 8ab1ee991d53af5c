// Training runs on the batches of a golden model, in place of data files.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "golden/golden_model.h"
#include "strata/config/config.h"
#include "strata/store/training_state.h"
#include "support/tiny_run.h"

namespace strata::test {

/// Returns the config of the model's steps, one row in a sub-batch.
[[nodiscard]] RunConfig golden_config(const GoldenModel& golden, DType dtype);

struct GoldenRun {
  RunResult result;
  std::map<std::string, std::vector<double>> first_gradients;
};

/// Trains the steps of the config. `begin`, if it is given, changes the state that each rank begins
/// with.
[[nodiscard]] GoldenRun train_golden(const GoldenModel& golden, const RunConfig& config, int ranks,
                                     const std::function<void(TrainingState&)>& begin = nullptr);

}  // namespace strata::test
