// What a run saves, and when. The trainer asks before each step what is due, says what was begun,
// and takes what came of it. A save that has failed is remembered, since the exit code tells it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/train/checkpointer.h"
#include "strata/train/save_agenda.h"

namespace strata {

class RunSaves {
 public:
  /// `checkpoints` is null if the run saves nothing; else it outlives this, as `config`, which is
  /// resolved, `place` and `ranks` do.
  RunSaves(const RunConfig& config, const CheckpointPlace& place, Checkpointer* checkpoints,
           Ranks& ranks);

  /// Returns whether the run saves anything.
  [[nodiscard]] bool any() const { return checkpoints_ != nullptr; }
  /// Says that somebody asks for a checkpoint.
  void ask() { agenda_.ask(); }
  /// Counts the saves that may have to be written before the run can end, if the step after `done`
  /// ones takes so long and is the last.
  void look_ahead(std::int64_t done, double longest_step_s);
  /// Returns how long those saves may take.
  [[nodiscard]] double needed_s() const;
  /// Returns as what the state after `done` steps is to be saved. If a validation of that state
  /// follows by which checkpoints are kept, their commit waits for it.
  [[nodiscard]] SaveKinds due(std::int64_t done, bool is_validated);
  /// Says that the state after `done` steps is being saved.
  void begun(const SaveKinds& kinds, std::int64_t done);
  /// Says what validations have found, so that saves which wait for one go on.
  void tell(const Validations& validations);
  /// Returns what came of the saves that have ended since the last call.
  [[nodiscard]] std::vector<SaveReport> take_reports();
  /// Returns how many steps a save that was due had to wait for the one before it.
  [[nodiscard]] std::int64_t steps_waited() const { return agenda_.steps_waited(); }

  /// Tells how far what is being saved is. The run saves something.
  [[nodiscard]] const WorkProgress& work() const { return checkpoints_->work(); }
  /// Blocks until nothing is being saved, and calls `meanwhile` ten times a second. The run saves
  /// something.
  void wait(const std::function<void()>& meanwhile) { checkpoints_->wait(meanwhile); }
  /// Saves the last state, which is that after `done` steps and `samples` samples, if it is not
  /// saved yet, or if a save that was due had to wait. What no step has changed is saved already,
  /// or elsewhere. Blocks as wait() does; all ranks call it. The run saves something.
  void save_last(std::int64_t done, std::int64_t samples, const std::function<void()>& meanwhile);

  /// Returns the kinds of which the last save has failed.
  [[nodiscard]] const SaveKinds& failed() const { return failed_; }
  /// Returns the steps of the state whose checkpoint was saved last; nothing if there is none.
  [[nodiscard]] std::optional<std::int64_t> saved() const { return agenda_.saved(); }

 private:
  const RunConfig& config_;
  const CheckpointPlace& place_;
  Checkpointer* checkpoints_;
  Ranks& ranks_;
  SaveAgenda agenda_;
  SaveKinds failed_;
  double longest_s_ = 0;  ///< of a save, or what one will probably take
  int ahead_ = 1;         ///< saves that may have to be written before the run can end
};

/// Returns whether the run goes by what validations find.
[[nodiscard]] bool goes_by_validations(const RunConfig& config);

}  // namespace strata
