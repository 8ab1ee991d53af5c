// Tests that a mixture gives every source its share at any time, counted one by one, and that any
// place of it can be asked for alone.

#include "strata/data/mixture.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {

namespace {

/// Returns by how many samples a share is ever off in the first `samples`, and checks that the
/// numbers of each source count up.
double largest_error(const Mixture& mixture, const std::vector<double>& weights,
                     std::int64_t samples) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> counts(weights.size());
  double largest = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const Mixture::Turn turn = mixture.at(i);
    REQUIRE(turn.index == counts.at(turn.source));
    ++counts[turn.source];
    for (std::size_t source = 0; source < counts.size(); ++source) {
      const double expected = static_cast<double>(i + 1) * weights[source] / sum;
      largest = std::max(largest, std::abs(static_cast<double>(counts[source]) - expected));
    }
  }
  for (std::size_t source = 0; source < counts.size(); ++source) {
    REQUIRE(mixture.count(source, samples) == counts[source]);
  }
  return largest;
}

}  // namespace

TEST_CASE("one source has every turn") {
  const Mixture mixture(std::vector<double>{0.3});
  CHECK(mixture.period() == 1);
  CHECK(mixture.at(0) == Mixture::Turn{0, 0});
  CHECK(mixture.at(1'000'000'000'007) == Mixture::Turn{0, 1'000'000'000'007});
}

TEST_CASE("weights with a common denominator are kept exactly") {
  CHECK(Mixture(std::vector<double>{0.7, 0.2, 0.1}).period() == 10);
  CHECK(Mixture(std::vector<double>{1, 2}).period() == 3);
  CHECK(Mixture(std::vector<double>{0.333, 0.667}).period() == 1000);
  const Mixture mixture(std::vector<double>{5, 1, 1});
  CHECK(mixture.count(0, 7'000'000'000'000) == 5'000'000'000'000);
  CHECK(
      mixture.at(7'000'000'000'000) ==
      Mixture::Turn{mixture.at(0).source, mixture.count(mixture.at(0).source, 7'000'000'000'000)});
}

TEST_CASE("shares are within one sample of the weights over any prefix") {
  for (const std::vector<double>& weights :
       std::vector<std::vector<double>>{{0.7, 0.2, 0.1},
                                        {1, 1},
                                        {1, 2, 4, 8, 16},
                                        {97, 1, 1, 1},
                                        {1, 1, 1, 97},
                                        {0.5, 0.25, 0.125, 0.0625, 0.0625},
                                        std::vector<double>(37, 1)}) {
    const Mixture mixture(weights);
    CHECK(largest_error(mixture, weights, 3 * mixture.period() + 1) < 1);
  }
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    std::vector<double> weights(2 + random() % 12);
    for (double& weight : weights) weight = static_cast<double>(1 + random() % 50);
    CHECK(largest_error(Mixture(weights), weights, 1000) < 1);
  }
}

TEST_CASE("weights without a short period are rounded to the longest") {
  const std::vector<double> weights{std::sqrt(2.0), std::sqrt(3.0), 0.001};
  const Mixture mixture(weights);
  REQUIRE(mixture.period() == std::int64_t{Mixture::kMostSlots});
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> rounded;
  for (std::size_t source = 0; source < weights.size(); ++source) {
    rounded.push_back(static_cast<double>(mixture.count(source, mixture.period())));
    CHECK(std::abs(rounded.back() - weights[source] / sum * Mixture::kMostSlots) < 1);
  }
  CHECK(largest_error(mixture, rounded, 10'000) < 1);
}

TEST_CASE("a mixture of nothing, or of next to nothing, is refused") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& weights :
       std::vector<std::vector<double>>{{},
                                        {0},
                                        {1, 0},
                                        {1, -1},
                                        {1, infinity},
                                        {1, std::nan("")},
                                        {1, 1e-6},
                                        std::vector<double>(Mixture::kMostSources + 1, 1)}) {
    REQUIRE_THROWS_AS(Mixture(weights), ConfigError);
  }
  CHECK_NOTHROW(Mixture(std::vector<double>(Mixture::kMostSources, 1)));
}

}  // namespace strata
