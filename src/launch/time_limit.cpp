// Finds the limits of a run's time, from the config and from SLURM. Both limits become one moment
// of the steady clock, which no correction of the time moves. SLURM is asked what is left rather
// than when the end is: that needs neither its clock nor its format of times, which sites change.

#include "strata/launch/time_limit.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/run_program.h"

namespace strata {

namespace {

/// SLURM ends processes some seconds after the limit, or at it: so much is left unused.
constexpr double kMarginSeconds = 30;

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::optional<std::int64_t> as_number(std::string_view digits) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || rest != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// Returns the seconds of "days-hours:minutes:seconds", of which minutes and seconds are there
/// always.
std::optional<double> as_seconds(std::string_view text) {
  if (text.size() > std::string_view("123456-12:12:12").size()) return std::nullopt;
  std::int64_t seconds = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto days = as_number(text.substr(0, dash));
    if (!days) return std::nullopt;
    seconds = *days * 24;
    text.remove_prefix(dash + 1);
  }
  int parts = 0;
  for (bool more = true; more; ++parts) {
    const std::size_t colon = text.find(':');
    const auto part = as_number(text.substr(0, colon));
    if (!part || *part < 0 || parts == 3) return std::nullopt;
    seconds = (parts == 0 ? seconds : seconds * 60) + *part;
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  const int wanted = dash == std::string_view::npos ? 2 : 3;
  return parts >= wanted ? std::optional(static_cast<double>(seconds)) : std::nullopt;
}

/// Returns the number by which squeue shows this job alone: that of an array's last job stands for
/// the array as well.
std::string job_number() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  const std::string task = variable("SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? variable("SLURM_JOB_ID") : array + "_" + task;
}

/// Asks squeue what is left of the job's time.
std::optional<double> asked_left_s(const std::string& job, double answer_s) {
  const ProgramAnswer answer =
      run_program({"squeue", "--noheader", "--jobs=" + job, "--format=%L"}, answer_s);
  std::string said = answer.text.substr(0, answer.text.find('\n'));
  std::erase(said, ' ');
  if (answer.failure.empty() && said == "UNLIMITED") return std::nullopt;
  const std::optional<double> left_s =
      answer.failure.empty() ? as_seconds(said) : std::optional<double>();
  if (!left_s) {
    log::warn(
        "SLURM_JOB_END_TIME is not set, and squeue does not say when job {} ends ({}): without "
        "run.wall_limit its last state may not be saved",
        job, answer.failure.empty() ? "\"" + said + "\"" : answer.failure);
  }
  return left_s;
}

}  // namespace

std::optional<double> slurm_left_s(double answer_s) {
  using std::chrono::system_clock;
  if (const auto end = as_number(variable("SLURM_JOB_END_TIME"))) {
    return std::chrono::duration<double>(system_clock::from_time_t(*end) - system_clock::now())
        .count();
  }
  const std::string job = job_number();
  return job.empty() ? std::nullopt : asked_left_s(job, answer_s);
}

TimeLimit::TimeLimit(std::optional<double> wall_limit_minutes, std::optional<double> job_left_s,
                     Clocks clocks)
    : now_s_(std::move(clocks.now_s)) {
  const double now_s = now_s_();
  constexpr double kMinute = 60;
  if (wall_limit_minutes) end_s_ = now_s - clocks.age_s() + kMinute * *wall_limit_minutes;
  if (job_left_s) {
    const double job_end_s = now_s + *job_left_s - kMarginSeconds;
    end_s_ = std::min(end_s_.value_or(job_end_s), job_end_s);
  }
}

bool TimeLimit::is_over(double needed_s) const { return end_s_ && now_s_() + needed_s > *end_s_; }

}  // namespace strata
