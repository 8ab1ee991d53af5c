// Tests the progress line and its estimates, against numbers worked out by hand.

#include "strata/train/progress.h"

#include <cmath>
#include <string>

#include "support/catch.h"

namespace strata {
namespace {

StepMetrics step_of(std::int64_t step, double loss, double seconds) {
  return {.step = step,
          .loss = loss,
          .grad_norm = 1.204,
          .lr = 3e-4,
          .tokens = 1000,
          .step_s = seconds,
          .mfu = 0.5 / seconds};
}

/// A local time, as the line shows it.
std::time_t local(int hour, int minute) {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 10;
  time.tm_mday = 22;
  time.tm_hour = hour;
  time.tm_min = minute;
  time.tm_isdst = -1;
  return std::mktime(&time);
}

}  // namespace

TEST_CASE("a progress line says what the steps since the last one were like") {
  Progress progress({.steps = 100, .tokens_per_step = 1000, .validations = 0, .has_mfu = true});
  progress.add(step_of(1, 9.0, 60));
  progress.begin_line();
  progress.add(step_of(2, 4.0, 1));
  progress.add(step_of(3, 3.0, 3));
  // 97 steps at 2 s: 194 s. The MFU of 2000 tokens in 4 s is 0.5 / 2.
  CHECK(progress.header() ==
        "   step   tokens      loss  grad norm        lr   tokens/s    MFU    left  end");
  CHECK(progress.line(local(17, 0)) ==
        "  3/100    3,000    3.5000      1.204  3.00e-04        500  25.0%   3m14s  2026-11-22 "
        "17:03");
}

TEST_CASE("masked documents have columns for targets and for MFU of what is attended to") {
  Progress progress({.steps = 100,
                     .tokens_per_step = 1000,
                     .has_mfu = true,
                     .has_targets = true,
                     .has_masks = true});
  for (const std::int64_t targets : {700, 500}) {
    StepMetrics step = step_of(targets == 700 ? 1 : 2, 3.0, 2);
    step.targets = targets;
    step.attended_mfu = 0.1;
    progress.add(step);
    if (targets == 700) continue;
    // The first step has left the window.
    CHECK(progress.header() ==
          "   step   tokens      loss  grad norm        lr   tokens/s  targets/s    MFU  attended  "
          "  left  end");
    CHECK_THAT(progress.line(local(17, 0)),
               ContainsSubstring("        500        250  25.0%     10.0%  "));
  }
}

TEST_CASE("names stand above their figures, whatever the length of the run") {
  for (const std::int64_t steps : {1, 1000, 2'000'000}) {
    Progress progress({.steps = steps, .tokens_per_step = 1 << 20});
    progress.add(step_of(1, 12.5, 0.5));
    const std::string line = progress.line(local(17, 0));
    const std::string header = progress.header();
    CHECK(header.find("loss") + 4 == line.find("12.5000") + 7);
    CHECK(header.find("tokens/s") + 8 == line.find("2,000") + 5);
    CHECK(header.find("end") == line.size() - std::string("2026-11-22 17:00").size());
  }
}

TEST_CASE("a run without a known peak has no column for MFU") {
  Progress progress({.steps = 100, .tokens_per_step = 1000});
  progress.add(step_of(1, 9.0, 60));
  CHECK(progress.header().find("MFU") == std::string::npos);
  CHECK(progress.line(0).find('%') == std::string::npos);
}

TEST_CASE("a loss that is not a number is shown as one that is not") {
  Progress progress({.steps = 100, .tokens_per_step = 1000});
  progress.add(step_of(1, std::nan(""), 60));
  CHECK_THAT(progress.line(0), ContainsSubstring(" nan "));
}

TEST_CASE("a step without targets counts in no mean of losses") {
  Progress progress({.steps = 100, .tokens_per_step = 1000});
  StepMetrics without = step_of(1, 0, 60);
  without.loss.reset();
  progress.add(without);
  CHECK(progress.recent_loss() == std::nullopt);
  CHECK_THAT(progress.line(0), ContainsSubstring("  1,000         -      1.204"));
  progress.add(step_of(2, 4.0, 1));
  without.step = 3;
  progress.add(without);
  progress.add(step_of(4, 3.0, 1));
  CHECK(progress.recent_loss() == 3.5);
  CHECK_THAT(progress.line(0), ContainsSubstring(" 3.5000 "));
}

TEST_CASE("the remaining time does not count the slow first step") {
  Progress progress({.steps = 10, .tokens_per_step = 1000});
  progress.add(step_of(1, 1, 60));
  CHECK(progress.eta_s() == 540.0);
  progress.add(step_of(2, 1, 1));
  progress.add(step_of(3, 1, 2));
  CHECK(progress.eta_s() == 7 * 1.5);
  progress.add(step_of(10, 1, 2));
  CHECK(progress.eta_s() == 0.0);
}

TEST_CASE("the remaining time is that of recent steps") {
  Progress progress({.steps = 1000, .tokens_per_step = 1000});
  for (std::int64_t step = 1; step <= 100; ++step) progress.add(step_of(step, 1, 60));
  for (std::int64_t step = 101; step <= 132; ++step) progress.add(step_of(step, 1, 2));
  CHECK(progress.eta_s() == (1000 - 132) * 2.0);
  CHECK(progress.recent_loss() == 1.0);
}

TEST_CASE("validations that are still to come count in the remaining time") {
  Progress progress({.steps = 10, .tokens_per_step = 1000, .validations = 3});
  for (std::int64_t step = 1; step <= 5; ++step) progress.add(step_of(step, 1, 1));
  progress.add_validation(30);
  CHECK(progress.eta_s() == 5 * 1.0 + 2 * 30.0);
}

}  // namespace strata
