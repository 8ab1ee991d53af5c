// Tests random bits against published values and independence, and normal numbers against the
// moments and the distribution function of the normal distribution.

#include "strata/base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <set>
#include <vector>

#include "support/catch.h"
#include "support/sanitized.h"

using namespace strata;

TEST_CASE("mix64 gives the published SplitMix64 sequence of seed 0") {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;
  CHECK(mix64(0) == 0xe220a8397b1dcdafull);
  CHECK(mix64(kStep) == 0x6e789e6aa1b965f4ull);
  CHECK(mix64(2 * kStep) == 0x06c45d188009454full);
}

TEST_CASE("uniform numbers lie inside of (0, 1) and fill it evenly") {
  constexpr int kDraws = 100000;
  std::array<int, 10> counts{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double u = random_uniform(1, 2, i);
    if (u <= 0.0 || u >= 1.0) FAIL("draw " << i << " is " << u);
    ++counts[static_cast<std::size_t>(u * 10)];
  }
  // 10,000 expected in each tenth; the standard deviation is 95.
  for (const int count : counts) CHECK(std::abs(count - kDraws / 10) < 500);
}

TEST_CASE("uniform numbers are inside of (0, 1) whatever the bits") {
  constexpr std::uint64_t kAllOnes = 0x8dbb5142ed5237c0ull;  // indices with these bits
  constexpr std::uint64_t kAllZeros = 0xdd115df216c68580ull;
  REQUIRE(random_bits(1, 2, kAllOnes) == ~std::uint64_t{0});
  REQUIRE(random_bits(1, 2, kAllZeros) == 0);
  CHECK(random_uniform(1, 2, kAllOnes) == 1 - 0x1p-53);
  CHECK(random_uniform(1, 2, kAllZeros) == 0x1p-54);
  CHECK(uniform_of(~std::uint64_t{0} << 12) == 1 - 0x1p-52);
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = random_normal(3, 4, i);
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  // Five standard errors each.
  CHECK(std::abs(sum / kDraws) < 5 * std::sqrt(1.0 / kDraws));
  CHECK(std::abs(squares / kDraws - 1) < 5 * std::sqrt(2.0 / kDraws));
  CHECK(std::abs(fourths / kDraws - 3) < 5 * std::sqrt(96.0 / kDraws));
}

TEST_CASE("many normal numbers at once are the single ones") {
  std::vector<double> values(1000);
  random_normals(6, 7, 12345, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE(values[i] == random_normal(6, 7, 12345 + i));
  }
}

TEST_CASE("normal numbers follow the distribution function, deep into the tails") {
  constexpr std::size_t kDraws = test::draws(2000000);
  std::vector<double> values(kDraws);
  random_normals(8, 9, 0, values);
  std::ranges::sort(values);
  // Kolmogorov and Smirnov: 1.95 / sqrt(n) is passed once in a thousand times.
  double distance = 0;
  for (std::size_t i = 0; i < kDraws; ++i) {
    const double expected = 0.5 * std::erfc(-values[i] / std::numbers::sqrt2);
    const auto rank = static_cast<double>(i);
    distance = std::max(
        {distance, std::abs(expected - rank / kDraws), std::abs(expected - (rank + 1) / kDraws)});
  }
  CHECK(distance < 1.95 / std::sqrt(static_cast<double>(kDraws)));
  for (const double x : {2.0, 3.0, 3.4, 3.6, 4.0, 4.5}) {
    CAPTURE(x);
    const double expected = kDraws * 0.5 * std::erfc(x / std::numbers::sqrt2);
    const auto above = static_cast<double>(values.end() - std::ranges::upper_bound(values, x));
    const auto below = static_cast<double>(std::ranges::lower_bound(values, -x) - values.begin());
    CHECK(std::abs(above - expected) < 5 * std::sqrt(expected));
    CHECK(std::abs(below - expected) < 5 * std::sqrt(expected));
  }
}

TEST_CASE("seed, stream and index each change the draw") {
  std::set<std::uint64_t> draws;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t stream = 0; stream < 8; ++stream) {
      for (std::uint64_t index = 0; index < 64; ++index) {
        draws.insert(random_bits(seed, stream, index));
      }
    }
  }
  CHECK(draws.size() == 8 * 8 * 64);
}

TEST_CASE("neighbouring streams are uncorrelated") {
  constexpr int kDraws = 100000;
  double product = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    product += random_normal(5, 0, i) * random_normal(5, 1, i);
  }
  CHECK(std::abs(product / kDraws) < 5 * std::sqrt(1.0 / kDraws));
}
