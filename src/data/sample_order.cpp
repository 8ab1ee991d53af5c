// Permutes sample indices by a keyed Feistel network with cycle walking. The constants below are
// part of what a seed means: changing one changes the order of every run.

#include "strata/data/sample_order.h"

#include <algorithm>
#include <bit>

#include "strata/base/random.h"

namespace strata {

namespace {

constexpr int kRounds = 6;
constexpr int kLeastHalfBits = 2;  // 16 values: with 4 the network can make few permutations
constexpr std::uint64_t kSampleStream = 0x73616d706c65;  // "sample"

/// Applies the network once to the 2*half_bits bits of x.
std::uint64_t encrypt(std::uint64_t key, std::uint64_t x, int half_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = x >> half_bits;
  std::uint64_t right = x & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t f = random_bits(key, static_cast<std::uint64_t>(round), right);
    const std::uint64_t next = left ^ (f & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

std::int64_t permute(std::uint64_t seed, std::int64_t epoch, std::int64_t index, std::int64_t n) {
  const auto size = static_cast<std::uint64_t>(n);
  const std::uint64_t key = random_bits(seed, kSampleStream, static_cast<std::uint64_t>(epoch));
  // The domain is less than 4 times n once n is above 4: a walk takes under 4 turns on average.
  const int half_bits =
      std::max(kLeastHalfBits, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  auto x = static_cast<std::uint64_t>(index);
  do {
    x = encrypt(key, x, half_bits);
  } while (x >= size);
  return static_cast<std::int64_t>(x);
}

SamplePosition sample(std::uint64_t seed, std::int64_t global_index, std::int64_t n) {
  const std::int64_t epoch = global_index / n;
  return {.epoch = epoch, .position = permute(seed, epoch, global_index % n, n)};
}

}  // namespace strata
