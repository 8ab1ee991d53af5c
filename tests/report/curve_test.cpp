// Tests smoothing against its definition, and that thinning loses no extreme.

#include "strata/report/curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Walk {
  std::vector<std::int64_t> x;
  std::vector<double> y;
};

Walk random_walk(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Walk walk;
  for (std::size_t i = 0; i < count; ++i) {
    walk.x.push_back(static_cast<std::int64_t>(i) + 1);
    walk.y.push_back(normal(random));
  }
  return walk;
}

TEST_CASE("a smoothed value is the mean of those up to it by exponential weights") {
  const Walk walk = random_walk(60);
  for (const double steps : {1.0, 10.0, 1000.0}) {
    const std::vector<double> means = smoothed(walk.y, steps);
    REQUIRE(means.size() == walk.y.size());
    for (std::size_t i = 0; i < walk.y.size(); ++i) {
      double sum = 0;
      double weights = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        const double weight = std::exp(-static_cast<double>(i - j) / steps);
        sum += weight * walk.y[j];
        weights += weight;
      }
      CHECK(std::abs(means[i] - sum / weights) < 1e-12);
    }
  }
}

TEST_CASE("a value that is not finite takes no part in smoothing and stays a gap") {
  const std::vector<double> means = smoothed(std::vector<double>{2, kNan, 2, 2}, 10);
  CHECK(means[0] == 2);
  CHECK(std::isnan(means[1]));
  CHECK(std::abs(means[2] - 2) < 1e-12);
}

TEST_CASE("few points are not thinned out") {
  const Walk walk = random_walk(20);
  const Curve curve = thinned(walk.x, walk.y, 10);
  CHECK(curve.x == walk.x);
  CHECK(curve.y == walk.y);
  CHECK(thinned({}, {}, 10).x.empty());
}

TEST_CASE("a thinned curve keeps ends, order and the extremes of each run of neighbours") {
  for (const std::size_t count : {std::size_t{21}, std::size_t{1000}, std::size_t{12345}}) {
    const Walk walk = random_walk(count);
    const Curve curve = thinned(walk.x, walk.y, 10);
    CHECK(curve.x.size() <= 20);
    CHECK(curve.x.size() >= 11);
    CHECK(curve.x.front() == walk.x.front());
    CHECK(curve.x.back() == walk.x.back());
    CHECK(std::ranges::adjacent_find(curve.x, std::ranges::greater_equal{}) == curve.x.end());
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      CHECK(curve.y[i] == walk.y[static_cast<std::size_t>(curve.x[i] - 1)]);
    }
    CHECK(std::ranges::max(curve.y) == std::ranges::max(walk.y));
    CHECK(std::ranges::min(curve.y) == std::ranges::min(walk.y));
  }
}

TEST_CASE("a single spike among many points stays in sight, and so does a gap") {
  Walk walk = random_walk(100000);
  walk.y[31234] = 50;
  walk.y[77777] = kNan;
  const Curve curve = thinned(walk.x, walk.y, 100);
  CHECK(std::ranges::count(curve.y, 50.0) == 1);
  CHECK(std::ranges::count(curve.x, 77778) == 1);
  CHECK(curve.x.size() <= 200);
}

}  // namespace
}  // namespace strata
