// Ranges of bytes of a text, and what becomes of them when the text is cut or rewritten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "strata/tokenizer/tokenizer.h"

namespace strata {

/// Tells whether one of the ranges, which are in order, holds all of [begin, end).
[[nodiscard]] inline bool holds(std::span<const TextRange> ranges, std::size_t begin,
                                std::size_t end) {
  const auto behind = [](std::size_t at, const TextRange& range) { return at < range.end; };
  const auto found = std::upper_bound(ranges.begin(), ranges.end(), begin, behind);
  return found != ranges.end() && found->begin <= begin && end <= found->end;
}

/// Tells whether one of the ranges, which are in order, has a byte of [begin, end).
[[nodiscard]] inline bool touches(std::span<const TextRange> ranges, std::size_t begin,
                                  std::size_t end) {
  const auto behind = [](std::size_t at, const TextRange& range) { return at < range.end; };
  const auto found = std::upper_bound(ranges.begin(), ranges.end(), begin, behind);
  return found != ranges.end() && found->begin < end;
}

/// Returns what the ranges have of [begin, end), counted from `begin`, with both ends of each put
/// through `map`.
template <class Map>
[[nodiscard]] std::vector<TextRange> ranges_within(std::span<const TextRange> ranges,
                                                   std::size_t begin, std::size_t end,
                                                   const Map& map) {
  std::vector<TextRange> found;
  for (const TextRange& range : ranges) {
    const std::size_t first = std::max(range.begin, begin);
    const std::size_t last = std::min(range.end, end);
    if (first < last) found.push_back({.begin = map(first - begin), .end = map(last - begin)});
  }
  return found;
}

[[nodiscard]] inline std::vector<TextRange> ranges_within(std::span<const TextRange> ranges,
                                                          std::size_t begin, std::size_t end) {
  return ranges_within(ranges, begin, end, [](std::size_t at) { return at; });
}

}  // namespace strata
