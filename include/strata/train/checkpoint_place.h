// Where the checkpoints of a run are, and with which of them it begins. `train` finds it out before
// there is a session, and again when a run goes back or passes over a damaged checkpoint.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/files.h"

namespace strata {

/// Where a run keeps its checkpoints, and the one that it goes on from.
struct CheckpointPlace {
  Files* files = nullptr;        ///< outlives the session
  std::filesystem::path folder;  ///< that holds them
  std::optional<FoundCheckpoint> resume;
  std::vector<SampleWindow> skipped{};  ///< of the training data, by all of the run so far
  RunData data{};                       ///< as every checkpoint of the run tells it
  /// What rollbacks have set aside, and what goes once the state is there that the run goes on
  /// from.
  std::vector<std::filesystem::path> given_up{};

  /// Returns the run folder that the checkpoints are in.
  [[nodiscard]] std::filesystem::path run() const { return folder.parent_path(); }

  /// Returns whether the checkpoint that the run goes on from is one of its own folder, as
  /// --resume auto would find it there.
  [[nodiscard]] bool resumes_own() const;
  [[nodiscard]] std::int64_t first_step() const { return resume ? resume->manifest.step : 0; }
  /// Returns the sample with which training goes on.
  [[nodiscard]] std::int64_t first_sample() const;
  /// Returns how many samples were trained on before that.
  [[nodiscard]] std::int64_t trained_samples() const;
  /// Returns what the run's validations have found up to the checkpoint; nothing if they were on
  /// other data or rows, whose losses are not compared with what is found now.
  [[nodiscard]] Validations validations() const;
};

}  // namespace strata
