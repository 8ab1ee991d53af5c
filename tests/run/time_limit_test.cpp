// Tests when a run has to end, by its config and by SLURM.

#include "strata/run/time_limit.h"

#include <cstdlib>
#include <ctime>
#include <string>

#include "strata/base/process.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Sets SLURM's variable while it lives.
class EndTime {
 public:
  explicit EndTime(const std::string& text) { ::setenv("SLURM_JOB_END_TIME", text.c_str(), 1); }
  ~EndTime() { ::unsetenv("SLURM_JOB_END_TIME"); }
};

}  // namespace

TEST_CASE("without a limit a run is never over") {
  CHECK_FALSE(TimeLimit(std::nullopt).is_over(1e9));
}

TEST_CASE("a wall limit counts from the start of the process") {
  const double minutes = process_age_s() / 60 + 10;  // 10 are left
  const TimeLimit limit(minutes);
  CHECK_FALSE(limit.is_over(9.5 * 60));
  CHECK(limit.is_over(10.5 * 60));
}

TEST_CASE("the end of SLURM's job counts, with a margin, and the earlier limit wins") {
  const EndTime end(std::to_string(std::time(nullptr) + 600));
  CHECK_FALSE(TimeLimit(std::nullopt).is_over(500));
  CHECK(TimeLimit(std::nullopt).is_over(590));
  CHECK(TimeLimit(process_age_s() / 60 + 1).is_over(90));
  CHECK_FALSE(TimeLimit(process_age_s() / 60 + 60).is_over(500));
}

TEST_CASE("what is no time is no limit") {
  const EndTime end("UNKNOWN");
  CHECK_FALSE(TimeLimit(std::nullopt).is_over(1e9));
}

}  // namespace strata::test
