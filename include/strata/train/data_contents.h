// Whether a run that is started again still has the data that it was trained on: by what is in
// them, not by the names of files. `train` asks before anything is allocated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/manifest.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/train/resume.h"

namespace strata {

/// Opens the sources of a config and reads their samples. Throws IoError that names the file.
[[nodiscard]] RunData read_run_data(const RunConfig& config, int ranks);

/// Returns a line for each source of data.train that holds something else than what a checkpoint
/// tells, with what differs; nothing where the checkpoint does not tell. Throws IoError that names
/// the file.
[[nodiscard]] std::string changed_training_data(const RunConfig& config, const RunData& was);

/// Compares the data with those of the checkpoint that the run goes on from, and sets
/// `now.validation_since`. Returns a line for each change that does not forbid to go on. Throws
/// ConfigError that names each source with another content and what differs of it, unless the
/// request allows "data", or "data.train" for those that are trained on.
[[nodiscard]] std::vector<std::string> compare_data(const RunConfig& config, RunData& now,
                                                    const FoundCheckpoint& checkpoint,
                                                    const ResumeRequest& request);

/// Does both on rank 0, which warns of what compare_data() returns; where nothing is resumed it
/// only reads. Returns the same on every rank but for the contents, which rank 0 has. Throws on all
/// ranks what rank 0 throws; all ranks call it.
[[nodiscard]] RunData agree_on_data(const RunConfig& config,
                                    const std::optional<FoundCheckpoint>& checkpoint,
                                    const ResumeRequest& request, Ranks& ranks);

}  // namespace strata
