// This file has dot products and weighted sums of rows, for attention; the variants include it and
// offer it as RowKernels (simd.h). The additions are written out (interleaved partial sums and a
// fixed tree, or one chain), so they are the same at every register width.
//
// Several lines are multiplied with a register of a row, so that it is loaded and widened once for
// them. The tree of a dot product is a few lanes wide at its end: so the trees of a run of rows are
// added up together, each stage halving the lanes of a sum and doubling the sums in a register.

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

/// Adds halves of pieces of kPiece lanes onto each other until one register has the sums of all
/// kCount: each has kPiece / kCount lanes, and they are in the order of the registers.
template <class V, int kPiece, int kCount>
[[gnu::always_inline]] inline typename V::Register add_pieces(typename V::Register* x) {
  if constexpr (kCount == 1) {
    return x[0];
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      x[i] = V::template add_halves<kPiece / 2>(x[i], x[i + kCount / 2]);
    }
    return add_pieces<V, kPiece / 2, kCount / 2>(x);
  }
}

/// Where the dot products of a run of kDots rows are in the register that add_pieces leaves: in
/// tiles of kRows rows, the first row of each tile comes first.
template <int kDots, int kRows>
struct RunOrder {
  std::int32_t place[kDots];
  constexpr RunOrder() : place() {
    for (int row = 0; row < kDots; ++row) {
      place[row] = row % kRows * (kDots / kRows) + row / kRows;
    }
  }
};

/// Whether rows of X have scales.
template <class X>
constexpr bool kScaled = false;
template <>
constexpr bool kScaled<std::int8_t> = true;

constexpr std::int64_t kCacheLine = 64;  // bytes

/// Has the processor read `count` elements into the second cache.
template <class X>
[[gnu::always_inline]] inline void fetch(const X* from, std::int64_t count) {
  const auto* bytes = reinterpret_cast<const char*>(from);
  const std::int64_t size = count * static_cast<std::int64_t>(sizeof(X));
  for (std::int64_t at = 0; at < size; at += kCacheLine) __builtin_prefetch(bytes + at, 0, 2);
}

/// How kLines lines are multiplied with a run of V::kDots rows: in tiles of kRows rows, whose
/// partial sums are registers.
template <int kLines, class A>
struct DotShape {
  using V = typename VectorOf<A>::Type;
  static constexpr int kLanes = LineBlock::kPadding;  // partial sums of a dot product
  static constexpr int kRegisters = kLanes / V::kWidth;
  static constexpr int kRows = sums_of_line(kLines * kRegisters, V::kDots);
  static constexpr int kTiles = V::kDots / kRows;
  using Sums = typename V::Register[kLines][kRows][kRegisters];  ///< of a tile
};

/// Adds to the partial sums what kLanes elements of each line and row give, from element d on.
template <int kLines, class A, class X>
[[gnu::always_inline]] inline void add_products(typename DotShape<kLines, A>::Sums& sums,
                                                const A* lines, std::int64_t padded,
                                                const X* const* rows, std::int64_t d) {
  using S = DotShape<kLines, A>;
  using V = typename S::V;
#pragma GCC unroll 16
  for (int r = 0; r < S::kRegisters; ++r) {
    const std::int64_t at = d + r * V::kWidth;
    if constexpr (kLines < S::kRows) {  // few registers hold the fewer ones
      typename V::Register line[kLines];
#pragma GCC unroll 8
      for (int l = 0; l < kLines; ++l) line[l] = V::load(lines + l * padded + at);
#pragma GCC unroll 16
      for (int k = 0; k < S::kRows; ++k) {
        const typename V::Register x = V::load(rows[k] + at);
#pragma GCC unroll 8
        for (int l = 0; l < kLines; ++l) sums[l][k][r] = V::fma(line[l], x, sums[l][k][r]);
      }
    } else {
      typename V::Register x[S::kRows];
#pragma GCC unroll 8
      for (int k = 0; k < S::kRows; ++k) x[k] = V::load(rows[k] + at);
#pragma GCC unroll 8
      for (int l = 0; l < kLines; ++l) {
        const typename V::Register line = V::load(lines + l * padded + at);
#pragma GCC unroll 8
        for (int k = 0; k < S::kRows; ++k) sums[l][k][r] = V::fma(line, x[k], sums[l][k][r]);
      }
    }
  }
}

/// Multiplies kLines lines with a tile of rows from `begin` on; for those past the end it takes the
/// last one again. Leaves in parts[l] the tile's sums, each in kWidth / kRows lanes, row by row.
template <int kLines, class A, class X>
[[gnu::always_inline]] inline void multiply_rows(const LineBlock& block, const A* lines,
                                                 const X* rows, std::int64_t begin,
                                                 std::int64_t end,
                                                 typename VectorOf<A>::Type::Register* parts) {
  using S = DotShape<kLines, A>;
  using V = typename S::V;
  const X* row[S::kRows];
#pragma GCC unroll 16
  for (int k = 0; k < S::kRows; ++k) row[k] = rows + smaller(begin + k, end - 1) * block.stride;
  if (block.ahead != 0) {
    for (int k = 0; k < S::kRows; ++k) fetch(row[k] + block.ahead, block.width);
  }
  typename S::Sums sums;
  for (auto& line : sums) {
    for (auto& lanes : line) {
      for (auto& sum : lanes) sum = V::broadcast(0);
    }
  }
  const std::int64_t whole = block.width / S::kLanes * S::kLanes;
#pragma GCC unroll 2
  for (std::int64_t d = 0; d < whole; d += S::kLanes) {
    add_products<kLines, A>(sums, lines, block.padded, row, d);
  }
  if (whole < block.width) {
    A rest[S::kRows][S::kLanes] = {};
    const A* padded[S::kRows];
    for (int k = 0; k < S::kRows; ++k) {
      for (std::int64_t d = whole; d < block.width; ++d) rest[k][d - whole] = widen(row[k][d]);
      padded[k] = rest[k];
    }
    add_products<kLines, A>(sums, lines + whole, block.padded, padded, 0);
  }
#pragma GCC unroll 8
  for (int l = 0; l < kLines; ++l) {
    typename V::Register x[S::kRows];
#pragma GCC unroll 16
    for (int k = 0; k < S::kRows; ++k) x[k] = add_registers<V, S::kRegisters>(sums[l][k]);
    parts[l] = add_pieces<V, V::kWidth, S::kRows>(x);
  }
}

/// Computes scores[l][j] for kLines lines from `first` on. All take the rows of all of them; what a
/// line does not want is not stored.
template <int kLines, class A, class X>
void dots_of(const LineBlock& block, int first, const A* lines, const X* rows, A* scores) {
  using S = DotShape<kLines, A>;
  using V = typename S::V;
  static constexpr RunOrder<V::kDots, S::kRows> kOrder;
  const RowRange all = all_rows(block, first, kLines);
  lines += first * block.padded;
  scores += first * block.scores;
  for (std::int64_t j = all.begin; j < all.end; j += V::kDots) {
    typename V::Register parts[S::kTiles][kLines];
    for (int t = 0; t < S::kTiles; ++t) {
      const std::int64_t begin = j + t * S::kRows;
      if (begin < all.end) {
        multiply_rows<kLines, A>(block, lines, rows, begin, all.end, parts[t]);
      } else {
        for (int l = 0; l < kLines; ++l) parts[t][l] = parts[0][l];
      }
    }
    for (int l = 0; l < kLines; ++l) {
      A* to = scores + l * block.scores + j;
      if constexpr (V::kDots == 1) {
        if (j < block.begin[first + l] || j >= block.end[first + l]) continue;
        *to = V::sum(parts[0][l]);
        if constexpr (kScaled<X>) *to *= block.scales[j - all.begin];
      } else {
        typename V::Register x[S::kTiles];
#pragma GCC unroll 16
        for (int t = 0; t < S::kTiles; ++t) x[t] = parts[t][l];
        typename V::Register sum = add_pieces<V, V::kWidth / S::kRows, S::kTiles>(x);
        if constexpr (S::kTiles > 1 && S::kRows > 1) sum = V::permute(sum, kOrder.place);
        if constexpr (kScaled<X>) sum = V::multiply(sum, V::load(block.scales + j - all.begin));
        const std::int64_t skipped = larger(block.begin[first + l] - j, 0);
        const std::int64_t count = smaller(block.end[first + l] - j, V::kDots);
        if (skipped == 0 && count == V::kDots) {
          V::store(to, sum);
        } else if (skipped < count) {
          V::store_some(to, sum, static_cast<int>(skipped), static_cast<int>(count));
        }
      }
    }
  }
}

/// Does the part of weighted_sums_of that belongs to kVectors registers of each row, from element d
/// on.
template <class V, int kLines, int kVectors, class A, class X>
void weighted_columns(const LineBlock& block, int first, RowRange range, const A* weights,
                      const X* rows, A* sums, std::int64_t d) {
  typename V::Register sum[kLines][kVectors];
#pragma GCC unroll 8
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      sum[l][c] = V::load(sums + (first + l) * block.padded + d + c * V::kWidth);
    }
  }
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    const X* row = rows + j * block.stride + d;
    if (block.ahead != 0) fetch(row + block.ahead, kVectors * V::kWidth);
    typename V::Register x[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) x[c] = V::load(row + c * V::kWidth);
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) {
      const auto weight = V::broadcast(weights[(first + l) * block.scores + j]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sum[l][c] = V::fma(weight, x[c], sum[l][c]);
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      V::store(sums + (first + l) * block.padded + d + c * V::kWidth, sum[l][c]);
    }
  }
}

/// Adds to the sums of kLines lines columns from d on, kVectors registers at a time, then fewer.
/// Returns the first column that is left, less than a register from the end.
template <class V, int kLines, int kVectors, class A, class X>
std::int64_t whole_columns(const LineBlock& block, int first, RowRange range, const A* weights,
                           const X* rows, A* sums, std::int64_t d) {
  for (; d + kVectors * V::kWidth <= block.width; d += kVectors * V::kWidth) {
    weighted_columns<V, kLines, kVectors>(block, first, range, weights, rows, sums, d);
  }
  if constexpr (kVectors > 1) {
    d = whole_columns<V, kLines, kVectors / 2>(block, first, range, weights, rows, sums, d);
  }
  return d;
}

/// Adds to sums[l], for kLines lines from `first` on, what the rows of the range give.
template <int kLines, class A, class X>
void weighted_sums_of(const LineBlock& block, int first, RowRange range, const A* weights,
                      const X* rows, A* sums) {
  using V = typename VectorOf<A>::Type;
  constexpr int kVectors = sums_of_line(kLines, 8);
  if (range.begin >= range.end) return;
  std::int64_t d = whole_columns<V, kLines, kVectors>(block, first, range, weights, rows, sums, 0);
  for (; d < block.width; ++d) {
    for (int l = first; l < first + kLines; ++l) {
      A* sum = sums + l * block.padded + d;
      const A* weight = weights + l * block.scores;
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        *sum = fused(weight[j], static_cast<A>(widen(rows[j * block.stride + d])), *sum);
      }
    }
  }
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

template <class A, class X>
void dots(const LineBlock& block, const A* lines, const X* rows, A* scores) {
  for_tiles(block, [&](auto known, int first) {
    dots_of<decltype(known)::kCount>(block, first, lines, rows, scores);
  });
}

template <class A, class X>
void weighted_sums(const LineBlock& block, const A* weights, const X* rows, A* sums) {
  for_tiles(block, [&](auto known, int first) {
    constexpr int kLines = decltype(known)::kCount;
    const RowRange common = common_rows(block, first, kLines);
    if (common.begin >= common.end) {
      for (int l = first; l < first + kLines; ++l) {
        weighted_sums_of<1>(block, l, {block.begin[l], block.end[l]}, weights, rows, sums);
      }
      return;
    }
    for (int l = first; l < first + kLines; ++l) {
      if (block.begin[l] == common.begin) continue;
      weighted_sums_of<1>(block, l, {block.begin[l], common.begin}, weights, rows, sums);
    }
    weighted_sums_of<kLines>(block, first, common, weights, rows, sums);
    for (int l = first; l < first + kLines; ++l) {
      if (block.end[l] == common.end) continue;
      weighted_sums_of<1>(block, l, {common.end, block.end[l]}, weights, rows, sums);
    }
  });
}

/// Does so with weights that are multiplied with the scales of their rows.
template <class A, class X>
void scaled_sums(const LineBlock& block, const A* weights, const X* rows, A* sums) {
  constexpr std::int64_t kRows = 64;
  A scaled[LineBlock::kMost * kRows];
  LineBlock part = block;
  part.scores = kRows;
  for (std::int64_t begin = block.begin[0]; begin < block.end[0]; begin += kRows) {
    const std::int64_t count = smaller(kRows, block.end[0] - begin);
    const float* scales = block.scales + (begin - block.begin[0]);
    for (int l = 0; l < block.lines; ++l) {
      const A* weight = weights + l * block.scores + begin;
      for (std::int64_t i = 0; i < count; ++i) scaled[l * kRows + i] = weight[i] * scales[i];
      part.begin[l] = 0;
      part.end[l] = count;
    }
    weighted_sums(part, scaled, rows + begin * block.stride, sums);
  }
}

template <class A, class X>
constexpr RowKernels<A, X> row_kernels() {
  return {dots<A, X>, kScaled<X> ? scaled_sums<A, X> : weighted_sums<A, X>};
}

}  // namespace
}  // namespace strata::cpu
