// The data that a session reads: the sources that the run trains on, those that it is validated on,
// and what cuts them into batches. The session opens them before memory is planned, and the
// submitting thread fills passes from them.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "strata/data/batch.h"
#include "strata/data/token_source.h"
#include "strata/train/training_data.h"

namespace strata {

class SessionData {
 public:
  /// Opens the data for batches of the training set, with references if there is a wish for them.
  /// `pool` outlives them. Throws ConfigError and IoError for files that cannot be read, or that
  /// were made by a tokenizer which is not the model's.
  SessionData(const RunConfig& config, const BatchOptions& options,
              const std::optional<ReferenceWish>& reference, ThreadPool& pool);

  /// Throws IoError for a source without a target that counts. Takes the memory of a row meanwhile.
  void require_targets() const;
  /// Takes the memory that batches are filled with.
  void take_memory();

  [[nodiscard]] const TrainingSet& training_set() const { return training_set_; }
  /// Returns what fills the passes of steps.
  [[nodiscard]] BatchLoader& training() { return *training_; }
  [[nodiscard]] const BatchLoader& training() const { return *training_; }
  /// Returns what fills the passes of a validation, or null if the run has none.
  [[nodiscard]] BatchLoader* validation() { return validation_.get(); }
  /// Returns whether the run is validated.
  [[nodiscard]] bool has_validation() const { return validation_ != nullptr; }
  /// Returns how many passes a validation has on this rank: run.eval_batches, or all of the set.
  [[nodiscard]] std::int64_t validation_passes() const;

 private:
  void open_validation(const RunConfig& config, BatchOptions options,
                       const std::optional<ReferenceWish>& reference, ThreadPool& pool);

  std::int64_t most_validation_passes_;  ///< 0: all
  TrainingSet training_set_;
  std::unique_ptr<TokenSource> validation_source_;
  std::unique_ptr<BatchLoader> training_, validation_;
};

}  // namespace strata
