// This file has weighted sums of rows, for attention. An element is one chain of additions in the
// order of the rows, so it is the same at every register width.

#pragma once

#include "kernels/cpu/simd/row_lines.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

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

}  // namespace
}  // namespace strata::cpu
