// A run begins anew in a folder in which no checkpoint is found to go on from. This part says
// whether it may, and where the lines go that an earlier run has left there.
#pragma once

#include <filesystem>

#include "strata/runfiles/run_folder.h"

namespace strata {

/// Throws ConfigError that says what to do if the metrics of the folder tell of a checkpoint: it is
/// somewhere else then, and this is no first start. A run that was killed before its first
/// checkpoint begins anew. Throws IoError if the metrics cannot be read.
void require_no_past(const std::filesystem::path& run_folder);

/// Renames metrics and samples of a run that has done steps: `metrics.jsonl.old`, or `.old-2` and
/// so on where there is one already. Throws IoError if that fails.
void set_aside_lines(const RunFolder& folder);

}  // namespace strata
