// Knows when a run must be over, by what the batch system or the config allows. A run asks between
// its steps whether what it still has to do, a save, fits.

#pragma once

#include <functional>
#include <optional>

#include "strata/base/process.h"

namespace strata {

/// Returns the seconds until SLURM ends the job that this process belongs to; nothing outside of a
/// job, and where the job has no limit. SLURM_JOB_END_TIME says it (seconds since 1970); where it
/// is not set, squeue is asked, and this blocks for at most `answer_s` seconds. If neither knows, a
/// warning says so and what to do.
[[nodiscard]] std::optional<double> slurm_left_s(double answer_s = 10);

class TimeLimit {
 public:
  /// Where the time comes from.
  struct Clocks {
    std::function<double()> now_s = steady_seconds;  ///< never goes back
    std::function<double()> age_s = process_age_s;   ///< since the process began
  };

  /// The earlier of `wall_limit_minutes` after the process began and, less a margin, `job_left_s`
  /// from now on.
  TimeLimit(std::optional<double> wall_limit_minutes, std::optional<double> job_left_s)
      : TimeLimit(wall_limit_minutes, job_left_s, Clocks()) {}
  TimeLimit(std::optional<double> wall_limit_minutes, std::optional<double> job_left_s,
            Clocks clocks);

  /// Returns whether less than `needed_s` seconds are left.
  [[nodiscard]] bool is_over(double needed_s) const;

 private:
  std::function<double()> now_s_;
  std::optional<double> end_s_;  ///< of that clock; absent: there is no limit
};

}  // namespace strata
