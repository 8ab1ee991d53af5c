// Tests what makes a step bad, against means and variances that are computed from all values.

#include "strata/optimizer/bad_steps.h"

#include <cmath>
#include <limits>
#include <vector>

#include "strata/base/random.h"
#include "support/catch.h"

namespace strata::test {
namespace {

using Limits = std::numeric_limits<double>;

double uniform(std::uint64_t index) {
  return static_cast<double>(random_bits(1, 2, index) >> 11) * 0x1p-53;
}

/// The mean and the population's variance, in two passes over all values.
struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments_of(const std::vector<double>& values) {
  Moments all;
  for (const double x : values) all.mean += x / static_cast<double>(values.size());
  for (const double x : values) {
    all.variance += (x - all.mean) * (x - all.mean) / static_cast<double>(values.size());
  }
  return all;
}

/// Losses around 3 with a deviation of about 0.1.
StepStatistics usual(std::int64_t steps) {
  StepStatistics statistics;
  for (std::int64_t i = 0; i < steps; ++i) {
    statistics.loss.add(i % 2 == 0 ? 2.9 : 3.1);
    statistics.grad_norm.add(i % 2 == 0 ? 0.9 : 1.1);
  }
  return statistics;
}

}  // namespace

TEST_CASE("mean and variance are those of all values until the window is full") {
  RunningNumber running;
  std::vector<double> values;
  for (std::int64_t i = 0; i < RunningNumber::kWindow; ++i) {
    values.push_back(5 + uniform(static_cast<std::uint64_t>(i)));
    running.add(values.back());
    const Moments all = moments_of(values);
    REQUIRE(running.mean == Approx(all.mean).epsilon(1e-12));
    REQUIRE(running.variance == Approx(all.variance).margin(1e-14));
  }
}

TEST_CASE("what was long ago does not count") {
  RunningNumber running;
  for (int i = 0; i < 128; ++i) running.add(1000);
  for (int i = 0; i < 12 * 128; ++i) running.add(i % 2 == 0 ? 1 : 3);
  // The first values have the weight (1 - 1/128)^1536 = 6e-6 together.
  const double left = 998 * std::pow(1 - 1.0 / 128, 12 * 128);
  CHECK(std::abs(running.mean - 2) < left + 2.0 / 128);
  CHECK(running.mean > 2);
}

TEST_CASE("numbers that are not finite are bad, whatever the limits and however few the steps") {
  CHECK_THAT(what_is_bad(Limits::quiet_NaN(), 1, {}, {}), ContainsSubstring("loss is nan"));
  CHECK_THAT(what_is_bad(Limits::infinity(), 1, {}, {}), ContainsSubstring("loss is inf"));
  CHECK_THAT(what_is_bad(3, Limits::infinity(), {}, {}), ContainsSubstring("gradient norm is inf"));
  CHECK(what_is_bad(3e30, 1e30, usual(1000), {}) == "");
}

TEST_CASE("an outlier is so many deviations above the mean, after enough steps") {
  const OutlierLimits limits{.loss = 5, .grad_norm = 5};
  const StepStatistics before = usual(kStepsBeforeOutliers);
  CHECK(what_is_bad(3.49, 1.49, before, limits) == "");
  CHECK_THAT(what_is_bad(3.51, 1, before, limits), ContainsSubstring("the loss 3.51"));
  CHECK_THAT(what_is_bad(3.51, 1, before, limits), ContainsSubstring("5.1 standard deviations"));
  CHECK_THAT(what_is_bad(3, 1.51, before, limits), ContainsSubstring("gradient norm 1.51"));
  CHECK(what_is_bad(0, 0, before, limits) == "");  // below is welcome
  CHECK(what_is_bad(3.51, 1.51, usual(kStepsBeforeOutliers - 2), limits) == "");
  CHECK(what_is_bad(3.51, 1, before, {.loss = {}, .grad_norm = 5}) == "");
}

TEST_CASE("numbers that do not change have no outliers within their rounding") {
  StepStatistics same;
  for (int i = 0; i < 100; ++i) same.loss.add(3);
  CHECK(same.loss.variance == 0);
  CHECK(what_is_bad(3.0001, 1, same, {.loss = 5, .grad_norm = {}}) == "");
  CHECK(what_is_bad(3.1, 1, same, {.loss = 5, .grad_norm = {}}) != "");
}

}  // namespace strata::test
