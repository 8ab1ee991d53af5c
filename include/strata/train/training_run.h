// A whole training run on one rank, from its folder to its exit code. The `train` command calls it
// on every rank. It opens the run folder, finds the checkpoint that the run goes on from, and
// trains; a run that goes back from a bad step, or passes over a damaged checkpoint, begins again
// with a new session.

#pragma once

#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/resume.h"

namespace strata {

/// This is what `train` is told beside the config.
struct TrainOptions {
  OldRun old_run = OldRun::kRefuse;
  ResumeRequest resume;
};

/// Trains the model of `config` and returns the exit code, which train_command() explains. All
/// ranks call it; it blocks. Throws what sessions throw, and ConfigError and IoError for a run
/// folder or a checkpoint that cannot be used.
[[nodiscard]] int run_training(const RunConfig& config, const TrainOptions& options, Ranks& ranks);

}  // namespace strata
