// `train` runs on all ranks that were started. What it was told to allow is looked at before any
// config is loaded.

#include "strata/commands/commands.h"
#include "strata/launch/run_ranks.h"
#include "strata/train/resume.h"
#include "strata/train/training_run.h"

namespace strata {

int train_command(const LoadConfig& load, const TrainOptions& options) {
  const LoadConfig checked = [&] {
    require_allowable(options.resume);
    return load();
  };
  return on_all_ranks("train", checked, [&](Ranks& ranks, const RunConfig& config) {
    return run_training(config, options, ranks);
  });
}

}  // namespace strata
