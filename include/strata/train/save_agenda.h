// When checkpoints are due: by steps, by the clock, when somebody asks, and at the end; and when
// weights alone are, by steps. It counts steps that are done; a save that is due while another is
// being written stays due.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strata/checkpoint/checkpoint_save.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

class SaveAgenda {
 public:
  /// `saved` are the steps of the state that this run's folder has already, if it has any; seconds
  /// are of a steady clock.
  SaveAgenda(const CheckpointSection& config, std::int64_t steps, std::optional<std::int64_t> saved,
             double now_s)
      : config_(config), steps_(steps), last_s_(now_s) {
    if (saved) saved_.push_back(*saved);
  }

  /// Somebody asks for a checkpoint at the next opportunity.
  void ask() { asked_ = true; }
  /// Returns as what the state behind `done` steps is to be saved. Called once for each step.
  [[nodiscard]] SaveKinds due(std::int64_t done, double now_s);
  /// Returns how many checkpoints may have to be written, one after the other, if the run ends when
  /// `done` steps are done: one that begins then or is under way, of which there are so many, and
  /// that of the last state.
  [[nodiscard]] int ahead(std::int64_t done, double now_s, int under_way) const;
  /// Returns what due() said last and has not begun, and what somebody has asked for since.
  [[nodiscard]] SaveKinds left() const {
    return {.whole = due_.whole || asked_, .weights = due_.weights};
  }
  /// Says that the state behind `done` steps is being saved as these.
  void begun(const SaveKinds& kinds, std::int64_t done, double now_s);
  /// Returns the steps of the state whose checkpoint was saved last, or is being saved; nothing if
  /// there is none.
  [[nodiscard]] std::optional<std::int64_t> saved() const {
    return saved_.empty() ? std::nullopt : std::optional(saved_.back());
  }
  /// Says that the checkpoint of so many steps has failed. The next one may have begun already.
  void failed(std::int64_t done) { std::erase(saved_, done); }
  /// Returns how many steps a save that was due had to wait for the one before it.
  [[nodiscard]] std::int64_t steps_waited() const { return waited_; }

 private:
  [[nodiscard]] SaveKinds fall_due(std::int64_t done, double now_s) const;

  CheckpointSection config_;
  std::int64_t steps_;
  std::vector<std::int64_t> saved_;  ///< steps of checkpoints, but of those that failed
  double last_s_;                    ///< when the last checkpoint began
  bool asked_ = false;
  SaveKinds due_;  ///< as due() said last, but for what has begun
  std::int64_t waited_ = 0;
};

/// Returns on every rank what any of them wants to save. A signal or a clock may have told one
/// alone, and a save needs all of them. All ranks call it; it blocks.
[[nodiscard]] SaveKinds wanted_by_any(const SaveKinds& own, Ranks& ranks);

}  // namespace strata
