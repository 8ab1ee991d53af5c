// Judges the width of ids by a sample of a file. In a file of wider ids every second id that is
// read is an upper half: 0, or 1 to 15 for vocabularies above 65,536, while the others are spread
// over all values. In ids of text neighbours are spread alike.

#include "data/id_width.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"

namespace strata {

namespace {

constexpr std::int64_t kBlocks = 16;
constexpr std::int64_t kBlockIds = 256;
constexpr std::int64_t kFewestIds = 64;

/// Reads blocks of ids that are spread over the file; each begins at an even position.
std::vector<std::int32_t> sample_of(const TokenSource& tokens) {
  std::vector<std::int32_t> sample;
  const std::int64_t size = tokens.size() / 2 * 2;
  const std::int64_t blocks = std::clamp<std::int64_t>(size / kBlockIds, 1, kBlocks);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = size / blocks * block / 2 * 2;
    const std::int64_t count = std::min(kBlockIds, size - begin);
    const std::size_t used = sample.size();
    sample.resize(used + static_cast<std::size_t>(count));
    tokens.read(begin, std::span(sample).subspan(used));
  }
  return sample;
}

bool is_half_of_wider_ids(const std::vector<std::int32_t>& sample) {
  std::uint32_t largest_upper = 0;
  for (std::size_t i = 1; i < sample.size(); i += 2) {
    largest_upper = std::max(largest_upper, static_cast<std::uint32_t>(sample[i]));
  }
  constexpr std::uint32_t kLargestUpper = 15;  // no vocabulary has 2^20 ids
  if (largest_upper > kLargestUpper) return false;
  std::size_t above = 0;
  for (std::size_t i = 0; i < sample.size(); i += 2) {
    above += static_cast<std::uint32_t>(sample[i]) > 16 * largest_upper ? 1 : 0;
  }
  // Of ids of 8 bytes read as u16, every second lower half is 0 as well.
  return above > sample.size() / 2 / 4;
}

bool is_two_narrow_ids(const std::vector<std::int32_t>& sample) {
  constexpr std::uint32_t kAboveVocabularies = 1 << 24;
  const auto above = std::ranges::count_if(
      sample, [](std::int32_t id) { return static_cast<std::uint32_t>(id) >= kAboveVocabularies; });
  return above > std::ssize(sample) / 8;
}

}  // namespace

void require_width(const TokenSource& tokens, TokenType type) {
  if (tokens.size() < kFewestIds) return;
  const std::vector<std::int32_t> sample = sample_of(tokens);
  const bool narrow_type = type == TokenType::kU16;
  if (is_half_of_wider_ids(sample)) {
    throw IoError(tokens.name() + ": every second id of it is (nearly) 0, as if ids had " +
                  (narrow_type ? "4 bytes and not the 2 that data.dtype \"u16\" gives them. Set "
                                 "data.dtype to \"u32\""
                               : "8 bytes and not the 4 that data.dtype \"u32\" gives them. Write "
                                 "them anew as u32"));
  }
  if (!narrow_type && is_two_narrow_ids(sample)) {
    throw IoError(tokens.name() +
                  ": many of its ids are above 16 million, as if they had 2 bytes " +
                  "and not the 4 that data.dtype \"u32\" gives them. Set data.dtype to \"u16\"");
  }
}

}  // namespace strata
