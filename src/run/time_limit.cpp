// Both limits become one moment of the steady clock, which no correction of the time moves.

#include "strata/run/time_limit.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "strata/base/process.h"

namespace strata {

namespace {

/// SLURM ends processes some seconds after the limit, or at it: so much is left unused.
constexpr double kMargin_s = 30;

/// Returns in how many seconds SLURM ends the job, or nothing outside of one.
std::optional<double> slurm_left_s() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  std::int64_t end = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), end);
  if (error != std::errc{} || rest != digits.data() + digits.size()) return std::nullopt;
  using std::chrono::system_clock;
  const auto left = system_clock::from_time_t(end) - system_clock::now();
  return std::chrono::duration<double>(left).count() - kMargin_s;
}

}  // namespace

TimeLimit::TimeLimit(std::optional<double> wall_limit_minutes) {
  const double now_s = steady_seconds();
  constexpr double kMinute = 60;
  if (wall_limit_minutes) end_s_ = now_s - process_age_s() + kMinute * *wall_limit_minutes;
  if (const auto left_s = slurm_left_s()) {
    end_s_ = std::min(end_s_.value_or(now_s + *left_s), now_s + *left_s);
  }
}

bool TimeLimit::is_over(double needed_s) const {
  return end_s_ && steady_seconds() + needed_s > *end_s_;
}

}  // namespace strata
