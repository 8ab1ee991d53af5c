// Runs a recorded step on paper: from a trace of submissions and the rates of a machine it computes
// when each would run, and what the time was spent on. Predictions, and the choices that rest on
// them, use it on traces of the dry backend. A pure computation that throws std::invalid_argument
// for records that no run can have made.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "strata/predict/paper_trace.h"

namespace strata {

/// When a record ran, or when the submitting thread submitted it, in seconds since the start.
struct PredictedRun {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  double begin_s = 0;  ///< when it could begin; a kernel may then wait for one of another lane
  double end_s = 0;
  /// The run whose end let this one begin, or kNone at the start.
  std::size_t cause = kNone;
};

/// Runs recorded submissions on paper: each begins when it was submitted, its lane is free and its
/// waits have passed, and takes the time that the rates give its work, longer while others take a
/// part of the memory or link that it uses. The device runs one kernel at a time, lanes in turns: a
/// kernel fills it, and another lane's begins when it ends, or comes to its tail. The link in
/// carries one copy at a time, and the lane that has it keeps it until its next copy may not begin.
/// Collectives and kernels slow each other, and copies too where collectives take the link. Other
/// ranks are taken to do the same at the same time, so that none waits for another. Everything
/// submitted before the first record counts as finished.
class Timeline {
 public:
  /// Runs all records at once. `records` must outlive the timeline. Throws std::invalid_argument if
  /// a lane misses a submission, or a wait is for what never ends.
  explicit Timeline(const PaperTrace& records);

  [[nodiscard]] std::size_t records() const { return records_.size(); }
  /// Returns run i. Record i is run i, and its submission is run records() + i. A record of the
  /// submitting thread itself runs when it is submitted.
  [[nodiscard]] const PredictedRun& run(std::size_t i) const { return runs_.at(i); }
  /// Returns when everything has ended.
  [[nodiscard]] double end_s() const { return end_s_; }

  /// What some time was spent on, in seconds: the chain of runs that each waited for the one
  /// before, by lane.
  struct CriticalPath {
    std::vector<double> lanes_s;  ///< per lane
    double submit_s = 0;          ///< the submitting thread
  };
  /// Returns what the time between `from_s` and the end of run `last` was spent on.
  [[nodiscard]] CriticalPath critical_path(std::size_t last, double from_s) const;

 private:
  const PaperTrace& records_;
  std::vector<PredictedRun> runs_;
  double end_s_ = 0;
};

}  // namespace strata
