// Adapters that a user names beside a model: a folder of PEFT, a checkpoint of a run with adapters,
// or a run, whose newest whole checkpoint is taken. Commands that use a model ask here.
#pragma once

#include <filesystem>

#include "strata/model/config.h"
#include "strata/model/merged_weights.h"

namespace strata {

/// Adds the adapters that `path` names to the weights of a model; A and B of a checkpoint are those
/// of merged_weights_of(). Throws ConfigError if `path` has no adapters, if they are none that
/// strata computes, are for another model, or if a checkpoint's were trained for other weights; and
/// IoError for files that cannot be read.
void add_named_adapter(const std::filesystem::path& path, const LlamaConfig& model,
                       MergedWeights& weights);

}  // namespace strata
