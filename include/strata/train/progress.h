// What a run says of its steps to people: a line of figures in fixed columns now and then. `train`
// shows it on rank 0. Nothing here writes or looks at a clock.

#pragma once

#include <cstdint>
#include <ctime>
#include <deque>
#include <optional>
#include <string>

#include "strata/runfiles/metrics.h"

namespace strata {

/// This is what a progress line is measured by.
struct ProgressGoal {
  std::int64_t steps = 0;
  std::int64_t tokens_per_step = 0;  ///< of all ranks
  std::int64_t tokens_before = 0;    ///< that the run had seen when it was resumed
  std::int64_t validations = 0;      ///< of the whole run
  bool has_mfu = false;              ///< steps will have one: a column is kept for it
  bool has_targets = false;          ///< not every token is a target: a column has those that are
  bool has_pairs = false;  ///< of answers: columns have their margin, and how many are preferred
  bool has_masks = false;  ///< documents are: a column has the MFU without what masks hide
};

/// Formats a run's progress and estimates when it is over. Rates are those of a window of the last
/// 32 steps, in which the slow first one (cold caches, first touch) only counts while it is alone.
class Progress {
 public:
  explicit Progress(const ProgressGoal& goal);

  /// Counts a step. Every step must be added, also those whose line is not shown.
  void add(const StepMetrics& metrics);
  /// Counts a validation that took so long.
  void add_validation(double seconds);

  /// Returns the seconds until the run is over: the remaining steps at the window's pace, and the
  /// remaining validations, each as long as the last one.
  [[nodiscard]] double eta_s() const;
  /// Returns the mean loss of the window's steps that have one; absent: none has.
  [[nodiscard]] std::optional<double> recent_loss() const;
  [[nodiscard]] std::int64_t steps_done() const { return last_.step; }
  [[nodiscard]] std::int64_t tokens_seen() const { return tokens_; }

  /// Returns the names of the columns of line(): step of all steps, tokens seen, loss, margin and
  /// share of preferred answers, gradient norm, learning rate, tokens per second, targets per
  /// second, MFU, MFU of what is attended to, time left, and when the run will be over.
  [[nodiscard]] std::string header() const;
  /// Returns the figures of now: the loss is the mean of the steps since begin_line() was called
  /// that have one ("-" if none has), and so are margin and share; rates are the window's, norm and
  /// learning rate the last step's.
  [[nodiscard]] std::string line(std::time_t now) const;
  void begin_line();

 private:
  struct Step {
    std::optional<double> loss;
    double tokens = 0;
    double seconds = 0;
    double mfu_seconds = 0;  ///< MFU times seconds
    double targets = 0;
    double attended_seconds = 0;  ///< MFU of what is attended to, times seconds
  };
  /// Returns the window's sum of a member.
  [[nodiscard]] double sum(double Step::*member) const;

  ProgressGoal goal_;
  StepMetrics last_;
  std::int64_t tokens_ = 0;
  std::int64_t validations_ = 0;
  double validation_s_ = 0;  ///< of the last one
  std::deque<Step> window_;
  double line_loss_ = 0;         ///< sum since begin_line
  double line_margin_ = 0;       ///< likewise, of steps that have a loss
  double line_preferred_ = 0;    ///< likewise
  std::int64_t line_steps_ = 0;  ///< that have a loss, since begin_line
};

}  // namespace strata
