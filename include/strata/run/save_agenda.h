// When checkpoints are due: by steps, by the clock, when somebody asks, and at the end; and when
// weights alone are, by steps. It counts steps that are done; a save that is due while another is
// being written stays due.

#pragma once

#include <cstdint>

#include "strata/checkpoint/checkpoint_save.h"
#include "strata/config/config.h"

namespace strata {

class SaveAgenda {
 public:
  /// `first` steps were done before, and saved; seconds are of a steady clock.
  SaveAgenda(const CheckpointSection& config, std::int64_t steps, std::int64_t first, double now_s)
      : config_(config), steps_(steps), saved_(first), last_s_(now_s) {}

  /// Somebody asks for a checkpoint at the next opportunity.
  void ask() { asked_ = true; }
  /// Returns as what the state behind `done` steps is to be saved. Called once for each step.
  [[nodiscard]] SaveKinds due(std::int64_t done, double now_s);
  /// Returns what due() said last and has not begun.
  [[nodiscard]] const SaveKinds& waiting() const { return due_; }
  /// Says that the state behind `done` steps is being saved as these.
  void begun(const SaveKinds& kinds, std::int64_t done, double now_s);
  /// Returns the steps of the state whose checkpoint was saved last, or is being saved.
  [[nodiscard]] std::int64_t saved() const { return saved_; }
  /// Says that the newest checkpoint has failed: what it was to save is not saved.
  void failed(std::int64_t before) { saved_ = before; }
  /// Returns how many steps a save that was due had to wait for the one before it.
  [[nodiscard]] std::int64_t steps_waited() const { return waited_; }

 private:
  CheckpointSection config_;
  std::int64_t steps_;
  std::int64_t saved_;
  double last_s_;  ///< when the last checkpoint began
  bool asked_ = false;
  SaveKinds due_;  ///< as due() said last, but for what has begun
  std::int64_t waited_ = 0;
};

}  // namespace strata
