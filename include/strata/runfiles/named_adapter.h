// Adapters that a user names beside a model: a folder of PEFT, a checkpoint of a run with adapters,
// or a run, whose newest whole checkpoint is taken. Commands that use a model ask here, and runs
// that begin with adapters.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/checkpoint/manifest.h"
#include "strata/config/config.h"
#include "strata/model/adapter_files.h"
#include "strata/model/config.h"
#include "strata/model/layout.h"
#include "strata/model/merged_weights.h"

namespace strata {

/// What a path names.
struct NamedAdapter {
  FoundAdapter found;
  std::vector<std::filesystem::path> files;  ///< with A and B
  std::optional<BaseWeights> base;           ///< what a checkpoint's were trained for
};

/// Returns the adapters that `path` names. Throws ConfigError, which begins with `option`, if it
/// has none, or none that strata computes, and IoError for files that cannot be read.
[[nodiscard]] NamedAdapter find_named_adapter(const std::filesystem::path& path,
                                              std::string_view option);

/// Adds the adapters that `path` names to the weights of a model; A and B of a checkpoint are those
/// of merged_weights_of(). Throws as find_named_adapter() does, and ConfigError and IoError if they
/// are for another model, or a checkpoint's for other weights.
void add_named_adapter(const std::filesystem::path& path, const LlamaConfig& model,
                       MergedWeights& weights);

/// Returns what adapter.path names, for load_run_config(). Throws as find_named_adapter() does.
[[nodiscard]] FoundAdapter find_start_adapter(const RunConfig& config);

/// Throws as open_start_adapter() does, and IoError for a tied head that is not the embedding.
void check_start_adapter(const RunConfig& config, const ModelLayout& layout);

/// Opens the files that a run begins with by adapter.path; none if it is empty. Throws ConfigError
/// and IoError if they cannot be read, if they are not the adapters of `layout`, or a checkpoint's
/// are for other weights than those of model.path.
[[nodiscard]] AdapterFiles open_start_adapter(const RunConfig& config, const ModelLayout& layout);

}  // namespace strata
