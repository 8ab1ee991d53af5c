// Synthetic tokens, and what sources share: the check of ranges, and the loss of all tokens.

#include "strata/data/token_source.h"

#include <algorithm>
#include <stdexcept>

#include "strata/base/error.h"
#include "strata/base/random.h"

namespace strata {

namespace {
constexpr std::uint64_t kSyntheticStream = 0x73796e7468657469;  // "syntheti"
}

void check_range(const TokenSource& source, std::int64_t begin, std::int64_t count) {
  if (begin < 0 || count < 0 || begin > source.size() - count) {
    throw IoError(source.name() + ": " + std::to_string(count) + " tokens from " +
                  std::to_string(begin) + " on were asked for, but it holds " +
                  std::to_string(source.size()));
  }
}

void TokenSource::read_loss(std::int64_t begin, std::span<std::uint8_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  std::ranges::fill(out, std::uint8_t{1});
}

PairLogs TokenSource::reference_logs(const PairPlace&) const {
  throw std::logic_error(name() + ": has no reference");
}

SyntheticTokens::SyntheticTokens(std::int64_t size, std::int64_t vocabulary, std::uint64_t seed)
    : size_(size), vocabulary_(vocabulary), seed_(seed) {
  if (size < 0 || vocabulary < 1) {
    throw ConfigError("synthetic tokens: size must be at least 0 and vocabulary at least 1, not " +
                      std::to_string(size) + " and " + std::to_string(vocabulary));
  }
}

void SyntheticTokens::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  const auto vocabulary = static_cast<std::uint64_t>(vocabulary_);
  auto index = static_cast<std::uint64_t>(begin);
  for (std::int32_t& id : out) {
    // The upper 32 bits scaled to the vocabulary: no division, and a bias below 2^-32 * vocabulary.
    const std::uint64_t bits = random_bits(seed_, kSyntheticStream, index++) >> 32;
    id = static_cast<std::int32_t>((bits * vocabulary) >> 32);
  }
}

}  // namespace strata
