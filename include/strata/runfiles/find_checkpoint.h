// Finds what a path means that a user gives where a checkpoint is expected: the folder of a
// checkpoint, a run folder, the folder in it that holds its checkpoints, or a Hugging Face model.
// Everything that reads a model or a checkpoint of a run by its name asks here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/model/config.h"

namespace strata {

/// A folder beside the checkpoint that was found: an older checkpoint, one that is not whole, or
/// what a save or a deletion left that did not end.
struct OtherCheckpoint {
  std::filesystem::path folder;
  std::optional<Manifest> manifest;  ///< none where it is not whole
  std::string problem;               ///< why it is not; empty where it is
};

/// What a path names: a checkpoint, with the others of its run if the path names a run; or none,
/// where it names a folder with a Hugging Face model.
struct NamedFolder {
  std::optional<FoundCheckpoint> checkpoint;
  std::vector<OtherCheckpoint> others;  ///< newest first, then what is left over
};

/// Returns what `path` names; of a run, the newest whole checkpoint. Manifests are read, and the
/// sizes of the files that they name are looked at. Throws IoError if the path is none of these, if
/// the checkpoint that it names is not whole, if no checkpoint of the run is, or if the newest ones
/// cannot be read.
[[nodiscard]] NamedFolder find_named_folder(const Files& files, const std::filesystem::path& path);

/// Warns if `path` names a run, of which `found` is the newest checkpoint, and the run has done
/// more steps than that holds: their state was not saved, or is not yet.
void warn_of_unsaved_steps(const FoundCheckpoint& found, const std::filesystem::path& path);

/// Returns the model that a checkpoint is of. Throws ConfigError if its manifest describes none
/// that strata trains.
[[nodiscard]] LlamaConfig model_of(const FoundCheckpoint& checkpoint);

}  // namespace strata
