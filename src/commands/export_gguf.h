// The part of `export` that makes a GGUF file.
#pragma once

#include <optional>

#include "strata/checkpoint/files.h"
#include "strata/commands/commands.h"
#include "strata/model/merged_weights.h"
#include "strata/runfiles/find_checkpoint.h"

namespace strata {

/// Writes the file that `options` ask for, of a checkpoint or a model's folder, and prints what it
/// made. `merged` has the weights of a checkpoint that holds adapters alone. Returns the exit code.
int export_gguf_file(Files& files, const NamedFolder& named, std::optional<MergedWeights> merged,
                     const ExportOptions& options);

}  // namespace strata
