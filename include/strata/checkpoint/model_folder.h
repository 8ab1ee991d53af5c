// What makes model/ of a checkpoint a folder of Hugging Face beside its weights: config.json, the
// index of the weights, and the files of the tokenizer that an imported model came with. They are
// small and do not change in a run, so a run makes them once, before its first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/model/config.h"
#include "strata/model/layout.h"

namespace strata {

/// A file that is written as a whole, by one rank.
struct SmallFile {
  std::string path;  ///< in the checkpoint's folder, such as "model/config.json"
  std::string contents;
};

/// Files of the model that a run began with, or of model/ of the checkpoint that it goes on from.
struct ImportedFiles {
  std::vector<std::string> names;  ///< of which some may be copied
  /// Returns what a file holds. Throws IoError if it cannot be read or has more than 256 MiB.
  /// Empty: there is no such model.
  std::function<std::string(const std::string& name)> read;
  bool has_config = false;  ///< whether its config.json must be among them: a new model has none
};
/// Returns those of a folder of Hugging Face on this machine, whose links lead nowhere else
/// (Links::kOfModel).
[[nodiscard]] ImportedFiles files_of_model(const std::filesystem::path& folder);
/// Returns those that the manifest of a checkpoint lists: what else lies in its model/ is nobody's,
/// and is not copied. `files` must outlive them.
[[nodiscard]] ImportedFiles files_of_checkpoint(const Files& files,
                                                const FoundCheckpoint& checkpoint);

/// Returns the files of model/ that hold no weights, by path. The config.json of an imported model
/// keeps all its keys, and its tokenizer's files are copied; else there are a new config.json and
/// no tokenizer. Throws as `imported` does, and ConfigError for a config.json that strata does not
/// read.
[[nodiscard]] std::vector<SmallFile> model_folder_files(const CheckpointLayout& files,
                                                        const ModelLayout& layout,
                                                        const LlamaConfig& config,
                                                        const ImportedFiles& imported = {});

/// How far a new folder of a model is.
struct ModelProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes = 0;  ///< of all files of weights, or of all files where they are copied
};
/// Is called now and then, by one thread at a time; what it throws ends the work.
using OnModelProgress = std::function<void(const ModelProgress&)>;

/// The folder of a checkpoint in which they lie, as paths of files begin.
inline constexpr std::string_view kModelFolder = "model/";
/// Returns whether a file of this name, without a folder, may be part of a model that strata wrote:
/// weights, config.json, the index, or what is copied with them.
[[nodiscard]] bool is_model_file(std::string_view name);

}  // namespace strata
