// When a run must be over: what the batch system or the config allows. A run asks between its steps
// whether what it still has to do, a save, fits.

#pragma once

#include <optional>

namespace strata {

class TimeLimit {
 public:
  /// The earlier of SLURM's end of the job (SLURM_JOB_END_TIME, seconds since 1970) and
  /// `wall_limit_minutes` after the process began.
  explicit TimeLimit(std::optional<double> wall_limit_minutes);

  /// Returns whether less than `needed_s` seconds are left.
  [[nodiscard]] bool is_over(double needed_s) const;

 private:
  std::optional<double> end_s_;  ///< of the steady clock; absent: there is no limit
};

}  // namespace strata
