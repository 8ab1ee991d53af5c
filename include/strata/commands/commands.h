// This header has the sub-commands of the program. The command line calls one of them, with a
// config that it has validated, and ends with the exit code that is returned. `train` and `bench`
// run on every rank, load the config there and refuse ranks whose runs differ; they log what goes
// wrong, take down the other ranks and return its code. `plan` and `tokenize` throw an Error.

#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "strata/config/config.h"
#include "strata/data/tokenize.h"
#include "strata/run/run_folder.h"

namespace strata {

/// This is what `bench` is told beside the config.
struct BenchOptions {
  std::filesystem::path json;  ///< the results are also written here; empty: only the table
};

/// Reads and validates the config that the command line names.
using LoadConfig = std::function<RunConfig()>;

/// This is what `plan` is told beside the config.
struct PlanOptions {
  std::string gpu;  ///< name of a GPU (gpu_models.h); empty: this machine's, if it has one
};

/// Trains a model and writes the run folder that the config names as run.output. SIGINT and SIGTERM
/// end the run between two steps, with 128 and the signal's number as exit code.
int train_command(const LoadConfig& load, OldRun old_run);
/// Prints on rank 0 every byte that a rank will take, by memory and purpose, the table of blocks,
/// and the step that is predicted where rates are known. Needs no GPU and takes none of the memory
/// that it plans. Throws ConfigError or OutOfMemory for a config that cannot run.
int plan_command(const RunConfig& config, const PlanOptions& options);
/// Measures steps on synthetic tokens, compares them with the prediction, and prints a table on
/// rank 0.
int bench_command(const LoadConfig& load, const BenchOptions& options);
/// Makes token files of text, shows progress on standard error and prints what was made. Throws
/// IoError or ConfigError.
int tokenize_command(TokenizeOptions options);

}  // namespace strata
