#pragma once

#include <filesystem>

#include "strata/config/config.h"
#include "strata/data/tokenize.h"

// What the sub-commands of the program do. Each returns the exit code and throws an Error for what
// goes wrong.

namespace strata {

struct BenchOptions {
  std::filesystem::path json;  ///< the results are also written here; empty: only the table
};

/// Trains and writes the run folder `config.run.output`.
int train_command(const RunConfig& config);
/// Prints every byte that the run will take, per memory and rank, and the step that it predicts.
/// Needs no GPU, allocates nothing.
int plan_command(const RunConfig& config);
/// Measures steps on synthetic tokens and prints a table.
int bench_command(const RunConfig& config, const BenchOptions& options);
/// Tokenizes, shows progress on standard error and prints what was made.
int tokenize_command(TokenizeOptions options);

}  // namespace strata
