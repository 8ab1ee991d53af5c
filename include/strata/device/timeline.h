#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "strata/device/rates.h"
#include "strata/device/trace.h"

namespace strata {

/// When a record ran, or when the submitting thread submitted it.
struct PredictedRun {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  double begin_s = 0;  ///< when it could; a kernel may then wait for one of another lane
  double end_s = 0;
  /// The run whose end let this one begin; kNone at the start.
  std::size_t cause = kNone;
};

/// Runs recorded submissions on paper: each begins when it was submitted, its lane is free and its
/// waits have passed, and takes the time that the rates give its work, longer while others take a
/// part of the memory or link that it uses. The device runs one kernel at a time, lanes in turns: a
/// kernel fills it, and another lane's begins when it ends. The link in carries one copy at a time,
/// and the lane that has it keeps it until its next copy may not begin. Everything submitted before
/// the first record counts as finished.
class Timeline {
 public:
  /// `records` outlive the timeline.
  Timeline(std::span<const TraceRecord> records, const Rates& rates);

  [[nodiscard]] std::size_t records() const { return records_.size(); }
  /// Record i is run i; its submission is run records() + i. A record of the submitting thread
  /// itself runs when it is submitted.
  [[nodiscard]] const PredictedRun& run(std::size_t i) const { return runs_.at(i); }
  /// When everything has ended.
  [[nodiscard]] double end_s() const { return end_s_; }

  /// What the time between `from_s` and the end of record `last` was spent on: the chain of runs
  /// that each waited for the one before, by lane.
  struct CriticalPath {
    std::vector<double> lanes_s;  ///< per lane
    double submit_s = 0;          ///< the submitting thread
  };
  [[nodiscard]] CriticalPath critical_path(std::size_t last, double from_s) const;

 private:
  std::span<const TraceRecord> records_;
  std::vector<PredictedRun> runs_;
  double end_s_ = 0;
};

}  // namespace strata
