// What a checkpoint of a run with adapters says of them, which linears of which model they adapt,
// and the weights of that model with them added. What exports adapters or uses them asks here.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/model/adapters.h"
#include "strata/model/merged_weights.h"
#include "strata/model/spec.h"

namespace strata {

/// The adapters of a checkpoint.
struct TrainedAdapter {
  AdapterConfig config;
  ModelSpec spec;    ///< of the model, with them
  BaseWeights base;  ///< the weights that they are for
};

/// Returns what a checkpoint says of its adapters; nothing if it holds a whole model. Throws
/// ConfigError if its manifest describes none that strata trains.
[[nodiscard]] std::optional<TrainedAdapter> adapter_of(const FoundCheckpoint& checkpoint);

/// Returns the files of a checkpoint's adapters, which are not compared with the manifest.
[[nodiscard]] std::vector<std::filesystem::path> adapter_paths(const FoundCheckpoint& checkpoint);

/// Opens the weights that the adapters of a checkpoint were trained for, and adds them as the files
/// in adapter/ have them, which are what the run computes with. Throws ConfigError if the weights
/// are random ones, have changed or are not where they were, and IoError for files that cannot be
/// read or do not fit.
[[nodiscard]] MergedWeights merged_weights_of(const FoundCheckpoint& checkpoint,
                                              const TrainedAdapter& trained);

}  // namespace strata
