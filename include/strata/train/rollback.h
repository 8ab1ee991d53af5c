// How a run goes back from a bad step to its last good checkpoint, and leaves out the data that it
// has seen since (Chowdhery et al., "PaLM", 2022, section 5.1). All ranks find the same.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

/// A bad step that the run goes back from.
struct BadStep {
  std::int64_t step = 0;     ///< counted from 0
  std::string what;          ///< is wrong with it
  std::int64_t samples = 0;  ///< at which the data of the step end
};

class Rollbacks {
 public:
  /// So many bad steps end the run if it never gets past the first of them.
  explicit Rollbacks(std::int64_t most_in_a_row) : most_(most_in_a_row) {}

  /// Throws NumericalError if this bad step is one too many.
  void require_possible(const BadStep& bad) const;
  /// Returns `place` with the good checkpoint to go on from: the newest before the bad step, and
  /// the one before that if the run has just come from it. Where the folder has none it is the one
  /// that the run began with, or the beginning. Later checkpoints are set aside, and noted as given
  /// up. Throws on all ranks if one cannot read what it looks at, or if all good ones may be among
  /// those that are damaged. All ranks call it.
  [[nodiscard]] CheckpointPlace go_back(const CheckpointPlace& place, const BadStep& bad,
                                        Ranks& ranks);

 private:
  [[nodiscard]] std::int64_t in_a_row(const BadStep& bad) const;

  std::int64_t most_;
  std::int64_t in_a_row_ = 0;
  std::int64_t furthest_ = -1;                ///< bad step
  std::optional<FoundCheckpoint> beginning_;  ///< what the run began with, once it has gone back
};

/// Sets the checkpoint aside that the run was to go on from, if it is one of its own folder: it is
/// damaged, and neither found again nor removed. Rank 0 calls it.
void set_aside_damaged(const CheckpointPlace& place);

/// Returns the samples that no step trains on after going back to a state that had consumed
/// `samples` and skipped `before`, if data go on at `end`. Adjacent windows become one.
[[nodiscard]] std::vector<SampleWindow> skip_to(std::vector<SampleWindow> before,
                                                std::int64_t samples, std::int64_t end);

}  // namespace strata
