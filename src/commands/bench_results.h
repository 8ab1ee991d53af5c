// What both kinds of `bench` write beside their figures, and where: each file of results says by
// which program, on which machine and with which config it was made.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "strata/commands/commands.h"
#include "strata/config/config.h"

namespace strata {

/// Throws IoError if --json names a file that is there and holds no results.
void require_results_file(const BenchOptions& options);
/// Writes the results where --json says. Returns whether a table may be printed: not where standard
/// output has them. Throws IoError if they cannot be written.
bool write_results(const BenchOptions& options, const nlohmann::json& json);
/// Returns "provenance" and "config" as a suite's file has them: program, date, host and GPUs, and
/// every key by its path.
[[nodiscard]] nlohmann::json origin_of(const RunConfig& config);

}  // namespace strata
