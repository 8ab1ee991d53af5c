// This file divides a block of lines into tiles of lines that the compiler knows the number of, for
// row_dots.h and row_sums.h: which rows the lines of a tile take, and how many registers each may
// add up in.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

/// Returns how many registers each of so many lines may add up in: a power of two, at most `most`.
constexpr int sums_of_line(int lines, int most) {
  int count = 1;
  while (2 * count <= most && 2 * count * lines <= kMostSums) count *= 2;
  return count;
}

/// A range of rows.
struct RowRange {
  std::int64_t begin, end;
};

/// Returns the rows that all of `lines` lines from `first` on take; the end may be below the begin.
inline RowRange common_rows(const LineBlock& block, int first, int lines) {
  RowRange common{block.begin[first], block.end[first]};
  for (int l = first + 1; l < first + lines; ++l) {
    common = {larger(common.begin, block.begin[l]), smaller(common.end, block.end[l])};
  }
  return common;
}

/// Returns the rows from the first that one of the lines takes to the last.
inline RowRange all_rows(const LineBlock& block, int first, int lines) {
  RowRange all{0, 0};
  for (int l = first; l < first + lines; ++l) {
    const RowRange own{block.begin[l], block.end[l]};
    if (own.begin >= own.end) continue;
    all = all.end == 0 ? own : RowRange{smaller(all.begin, own.begin), larger(all.end, own.end)};
  }
  return all;
}

constexpr std::int64_t kCacheLine = 64;  // bytes

/// Has the processor read `count` elements into the second cache.
template <class X>
[[gnu::always_inline]] inline void fetch(const X* from, std::int64_t count) {
  const auto* bytes = reinterpret_cast<const char*>(from);
  const std::int64_t size = count * static_cast<std::int64_t>(sizeof(X));
  for (std::int64_t at = 0; at < size; at += kCacheLine) __builtin_prefetch(bytes + at, 0, 2);
}

/// A number of lines that the compiler knows.
template <int kLines>
struct KnownLines {
  static constexpr int kCount = kLines;
};

/// Calls f(KnownLines, the first) for tiles of all lines of a block.
template <class F>
void for_tiles(const LineBlock& block, const F& f) {
  for (int first = 0; first < block.lines; first += kMostLines) {
    switch (block.lines - first) {
      case 1: f(KnownLines<1>{}, first); break;
      case 2: f(KnownLines<2>{}, first); break;
      case 3: f(KnownLines<3>{}, first); break;
      case 4: f(KnownLines<smaller(4, kMostLines)>{}, first); break;
      case 5: f(KnownLines<smaller(5, kMostLines)>{}, first); break;
      case 6: f(KnownLines<smaller(6, kMostLines)>{}, first); break;
      case 7: f(KnownLines<smaller(7, kMostLines)>{}, first); break;
      default: f(KnownLines<kMostLines>{}, first); break;
    }
  }
}

}  // namespace
}  // namespace strata::cpu
