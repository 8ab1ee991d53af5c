// How the reader of a run config finds what lies in folders that the config names: a model that has
// moved, and what adapters are. Layers above know checkpoints and runs, so they do the looking.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "strata/model/adapters.h"

namespace strata {

struct RunConfig;

/// Is called with a config as far as it was read, of which the folder of `model.path` is not there.
/// Returns a folder of the same model, which takes its place, or an empty path.
using FindModel = std::function<std::filesystem::path(const RunConfig&)>;

/// Adapters that a config names by `adapter.path`.
struct FoundAdapter {
  std::filesystem::path folder;  ///< of PEFT, or of a checkpoint
  std::string source;            ///< the file that says what they are
  AdapterConfig config;
};
/// Is called with a config as far as it was read, whose `adapter.path` is not empty, and returns
/// what that names.
using FindAdapter = std::function<FoundAdapter(const RunConfig&)>;

/// Who looks for the folders that a config names. Without one the config itself has to say all.
struct FolderFinders {
  FindModel model = nullptr;
  FindAdapter adapter = nullptr;
};

}  // namespace strata
