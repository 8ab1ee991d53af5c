// Tests that an epoch is a permutation that looks random, and that the orders of existing runs,
// written out here, never change.

#include "strata/data/sample_order.h"

#include <algorithm>
#include <array>
#include <vector>

#include "support/catch.h"

namespace strata {

TEST_CASE("the sample order of an epoch visits every sample once") {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const std::int64_t n : {127, 128, 129, 255, 256, 257, 1009, 4096, 4099, 65537, 99'991}) {
    sizes.push_back(n);
  }
  for (const std::int64_t n : sizes) {
    for (const std::int64_t epoch : {0, 1, 77}) {
      std::vector<int> visits(static_cast<std::size_t>(n));
      bool inside = true;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t p = permute(5, epoch, i, n);
        inside = inside && p >= 0 && p < n;
        if (inside) ++visits[static_cast<std::size_t>(p)];
      }
      INFO("n " << n << ", epoch " << epoch);
      CHECK(inside);
      CHECK(visits == std::vector<int>(static_cast<std::size_t>(n), 1));
    }
  }
}

TEST_CASE("the sample order works for more samples than 32 bits count") {
  const std::int64_t n = (std::int64_t{1} << 40) + 12'345;
  std::vector<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) seen.push_back(permute(1, 2, n - 1 - i, n));
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  CHECK(seen.front() >= 0);
  CHECK(seen.back() < n);
  CHECK(seen.back() > n / 2);
}

TEST_CASE("epochs and seeds give other orders, and the same ones again") {
  constexpr std::int64_t kSamples = 1000;
  const auto same_places = [](std::uint64_t seed_a, std::int64_t epoch_a, std::uint64_t seed_b,
                              std::int64_t epoch_b) {
    int same = 0;
    for (std::int64_t i = 0; i < kSamples; ++i) {
      same += permute(seed_a, epoch_a, i, kSamples) == permute(seed_b, epoch_b, i, kSamples);
    }
    return same;
  };
  CHECK(same_places(1, 0, 1, 0) == kSamples);
  // Two random orders agree at about one place (Poisson); never at 15.
  CHECK(same_places(1, 0, 1, 1) < 15);
  CHECK(same_places(1, 0, 2, 0) < 15);
  CHECK(same_places(1, 7, 2, 6) < 15);
}

TEST_CASE("every sample is about equally likely at every place") {
  // 5 samples, 4000 epochs: counts of (place, sample) are binomial around 800, deviation 25.
  constexpr std::size_t kSamples = 5;
  std::array<std::array<int, kSamples>, kSamples> counts{};
  std::array<int, kSamples * kSamples> pairs{};
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    std::array<std::size_t, kSamples> order{};
    for (std::size_t i = 0; i < kSamples; ++i) {
      order[i] = static_cast<std::size_t>(
          permute(3, epoch, static_cast<std::int64_t>(i), std::int64_t{kSamples}));
      ++counts[i][order[i]];
    }
    ++pairs[order[0] * kSamples + order[1]];
  }
  for (const auto& place : counts) {
    for (const int count : place) {
      CHECK(count > 800 - 5 * 26);
      CHECK(count < 800 + 5 * 26);
    }
  }
  // What comes second does not depend on what came first: 20 pairs, 200 each, deviation 14.
  for (std::size_t first = 0; first < kSamples; ++first) {
    for (std::size_t second = 0; second < kSamples; ++second) {
      const int count = pairs[first * kSamples + second];
      CHECK(count >= (first == second ? 0 : 200 - 5 * 14));
      CHECK(count <= (first == second ? 0 : 200 + 5 * 14));
    }
  }
}

TEST_CASE("neighbours in the order are not neighbours in the file") {
  // In a random order of 10000, |difference| < 100 has probability 2 %: 200 +- 14 of 9999.
  int close = 0;
  for (std::int64_t i = 0; i + 1 < 10'000; ++i) {
    const std::int64_t distance = permute(9, 0, i, 10'000) - permute(9, 0, i + 1, 10'000);
    close += distance > -100 && distance < 100;
  }
  CHECK(close > 200 - 75);
  CHECK(close < 200 + 75);
}

TEST_CASE("the global sample index runs through whole epochs") {
  CHECK(sample(4, 0, 7) == SamplePosition{0, permute(4, 0, 0, 7)});
  CHECK(sample(4, 6, 7) == SamplePosition{0, permute(4, 0, 6, 7)});
  CHECK(sample(4, 7, 7) == SamplePosition{1, permute(4, 1, 0, 7)});
  CHECK(sample(4, 30, 7) == SamplePosition{4, permute(4, 4, 2, 7)});
  CHECK(sample(4, 12, 1) == SamplePosition{12, 0});
}

TEST_CASE("the sample order of existing runs never changes") {
  // A resumed run must go on with the data that it would have seen. Computed outside of this
  // program.
  const std::vector<std::int64_t> expected{0, 2, 3, 1, 4, 8, 6, 7, 5, 9};
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < 10; ++i) found.push_back(permute(2024, 3, i, 10));
  CHECK(found == expected);
}

}  // namespace strata
