// Sees to it that ranks which train together were given one run. Each tells the others its config,
// its program and what its files are; whoever differs is named before anything is allocated,
// because ranks that differ would wait for each other for ever or train on different things.
// Memory limits, folders and threads may differ, and so the plan is compared as well.

#pragma once

#include <string>
#include <vector>

#include "strata/base/fields.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

/// Returns what all ranks must have alike: the keys of the config that no rank may choose for
/// itself, the program, and lengths and samples of the files of data and model. Throws IoError for
/// a file that cannot be read.
[[nodiscard]] std::vector<FieldText> facts_of_run(const RunConfig& config);
/// Returns what all ranks must have decided alike: the resolved keys that say which blocks travel
/// between ranks, and when.
[[nodiscard]] std::vector<FieldText> facts_of_plan(const RunConfig& resolved);

/// Compares every rank's facts with those of rank 0 and returns a line for each that differs, with
/// both values: the same text on all ranks, empty if they agree. All ranks call it.
[[nodiscard]] std::string disagreement(const std::vector<FieldText>& own, Ranks& ranks);
/// Returns the texts of all ranks, by rank. All ranks call it.
[[nodiscard]] std::vector<std::string> gather_texts(const std::string& own, Ranks& ranks);

}  // namespace strata
