// What saves the checkpoints of one run: it makes the saves that the engine writes, and tells what
// came of them. A session has a Checkpointer if its run saves; the submitting thread calls it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/work_progress.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/checkpoint/state_saver.h"
#include "strata/comm/ranks.h"
#include "strata/engine/training_engine.h"
#include "strata/plan/setup.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

class Checkpointer {
 public:
  /// All arguments outlive it. The engine has a saver. Throws IoError if a file of
  /// the imported model that goes into every checkpoint cannot be read.
  /// `write_gbs` is what require_disk() (save_room.h) has found.
  Checkpointer(const CheckpointPlace& place, const RunConfig& config, const Setup& setup,
               double write_gbs, TrainingEngine& engine, RankGroups& groups);

  /// Returns how many seconds a save will probably take, by what was written at the start.
  [[nodiscard]] double expected_s() const { return expected_s_; }
  /// Returns saves of the state behind `steps` steps and `samples` samples.
  [[nodiscard]] Saves make_saves(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples);
  /// Says that saves of the state behind `steps` steps are not committed before validated(), since
  /// a validation of that state is to come.
  void await_validation(std::int64_t steps) { validation_of_ = steps; }
  /// Says what validations have found up to now, for the manifests of saves that wait for it and of
  /// those that are made from now on.
  void validated(const Validations& validations) {
    validations_ = validations;
    validation_of_.reset();
    saver_.validated(validations);
  }
  /// Writes the state as it is, which is that behind so many steps, and blocks until it is
  /// committed or has failed. Everything that was submitted is done. `meanwhile` is as of wait().
  void save_now(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples,
                const std::function<void()>& meanwhile = nullptr);
  /// Blocks until nothing is being saved; calls `meanwhile`, if it is given, ten times a second.
  void wait(const std::function<void()>& meanwhile = nullptr) { saver_.wait(meanwhile); }
  /// Returns how many saves are under way: one, or none. One whose reports were not taken counts.
  [[nodiscard]] int under_way() const { return saver_.busy() ? 1 : 0; }
  /// Returns what came of the saves that have ended since the last call.
  [[nodiscard]] std::vector<SaveReport> take_reports();
  /// Returns the files that every checkpoint has beside the state and its manifest.
  [[nodiscard]] const std::vector<SmallFile>& small_files() const { return small_files_; }
  /// Tells how far the saves are that were begun, until their reports are taken.
  [[nodiscard]] const WorkProgress& work() const { return work_; }

 private:
  [[nodiscard]] std::shared_ptr<CheckpointSave> make_save(const Manifest& facts,
                                                          const CheckpointLayout& layout,
                                                          std::string_view folder,
                                                          const Retention& retention);

  const CheckpointPlace& place_;
  const RunConfig& config_;  ///< resolved
  const Setup& setup_;
  StateSaver& saver_;
  CheckpointLayout weights_;  ///< of weights alone
  RankGroups& groups_;
  std::optional<BaseWeights> base_;  ///< of a run that trains adapters
  std::vector<SmallFile> small_files_;
  double expected_s_ = 0;
  std::int64_t saves_ = 0;  ///< that were begun
  Validations validations_;
  std::optional<std::int64_t> validation_of_;  ///< steps of the state that is validated next
  WorkProgress work_;
};

}  // namespace strata
