// This file has dot products of lines with rows, for attention. The additions are written out
// (interleaved partial sums and a fixed tree), so they are the same at every register width.
//
// The tree of a dot product is a few lanes wide at its end: so the trees of a run of rows are added
// up together, each stage halving the lanes of a sum and doubling the sums in a register.

#pragma once

#include "kernels/cpu/simd/row_lines.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

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

template <class A, class X>
void dots(const LineBlock& block, const A* lines, const X* rows, A* scores) {
  for_tiles(block, [&](auto known, int first) {
    dots_of<decltype(known)::kCount>(block, first, lines, rows, scores);
  });
}

}  // namespace
}  // namespace strata::cpu
