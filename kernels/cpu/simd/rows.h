// This file has dot products and weighted sums of rows, for attention; the variants include it and
// offer it as RowKernels (simd.h). The additions are written out (interleaved partial sums and a
// fixed tree, or one chain), so they are the same at every register width.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

template <class A>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = VectorF32;
};
template <>
struct VectorOf<double> {
  using Type = VectorF64;
};

/// Computes scores[l][j] for kLines lines from `first` on and rows [begin, end).
template <int kLines, class A, class X>
void dots_of(const LineBlock& block, int first, std::int64_t begin, std::int64_t end,
             const A* lines, const X* rows, A* scores) {
  using V = typename VectorOf<A>::Type;
  constexpr int kLanes = LineBlock::kPadding;  // the partial sums of a dot product
  constexpr int kRegisters = kLanes / V::kWidth;
  const std::int64_t whole = block.width / kLanes * kLanes;
  for (std::int64_t j = begin; j < end; ++j) {
    const X* row = rows + j * block.stride;
    typename V::Register sums[kLines][kRegisters];
    for (auto& line : sums) {
      for (auto& lanes : line) lanes = V::broadcast(0);
    }
    const auto add = [&](std::int64_t d, const auto* part) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int r = 0; r < kRegisters; ++r) {
        const typename V::Register x = V::load(part + r * V::kWidth);
#pragma GCC unroll 4
        for (int l = 0; l < kLines; ++l) {
          const A* line = lines + (first + l) * block.padded + d + r * V::kWidth;
          sums[l][r] = V::fma(V::load(line), x, sums[l][r]);
        }
      }
    };
    for (std::int64_t d = 0; d < whole; d += kLanes) add(d, row + d);
    if (whole < block.width) {
      A rest[kLanes] = {};
      for (std::int64_t d = whole; d < block.width; ++d) rest[d - whole] = widen(row[d]);
      add(whole, rest);
    }
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 4
      for (int half = kRegisters / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
        for (int r = 0; r < half; ++r) sums[l][r] = V::add(sums[l][r], sums[l][r + half]);
      }
      scores[(first + l) * block.scores + j] = V::sum(sums[l][0]);
    }
  }
}

/// Does the part of weighted_sums_of that belongs to kVectors registers of each row, from element d
/// on.
template <class V, int kLines, int kVectors, class A, class X>
void weighted_columns(const LineBlock& block, int first, std::int64_t begin, std::int64_t end,
                      const A* weights, const X* rows, A* sums, std::int64_t d) {
  typename V::Register sum[kLines][kVectors];
#pragma GCC unroll 4
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
      sum[l][c] = V::load(sums + (first + l) * block.padded + d + c * V::kWidth);
    }
  }
  for (std::int64_t j = begin; j < end; ++j) {
    const X* row = rows + j * block.stride + d;
    typename V::Register x[kVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) x[c] = V::load(row + c * V::kWidth);
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) {
      const auto weight = V::broadcast(weights[(first + l) * block.scores + j]);
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) sum[l][c] = V::fma(weight, x[c], sum[l][c]);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) {
      V::store(sums + (first + l) * block.padded + d + c * V::kWidth, sum[l][c]);
    }
  }
}

/// Adds to sums[l], for kLines lines from `first` on, what rows [begin, end) give.
template <int kLines, class A, class X>
void weighted_sums_of(const LineBlock& block, int first, std::int64_t begin, std::int64_t end,
                      const A* weights, const X* rows, A* sums) {
  using V = typename VectorOf<A>::Type;
  std::int64_t d = 0;
  for (; d + 2 * V::kWidth <= block.width; d += 2 * V::kWidth) {
    weighted_columns<V, kLines, 2>(block, first, begin, end, weights, rows, sums, d);
  }
  for (; d + V::kWidth <= block.width; d += V::kWidth) {
    weighted_columns<V, kLines, 1>(block, first, begin, end, weights, rows, sums, d);
  }
  for (; d < block.width; ++d) {
    for (int l = first; l < first + kLines; ++l) {
      A* sum = sums + l * block.padded + d;
      const A* weight = weights + l * block.scores;
      for (std::int64_t j = begin; j < end; ++j) {
        *sum = fused(weight[j], static_cast<A>(widen(rows[j * block.stride + d])), *sum);
      }
    }
  }
}

/// The rows that every line of a full block takes.
struct Common {
  std::int64_t begin, end;
};
inline Common common_rows(const LineBlock& block) {
  Common common{block.begin[0], block.end[0]};
  for (int l = 1; l < block.lines; ++l) {
    common.begin = block.begin[l] > common.begin ? block.begin[l] : common.begin;
    common.end = block.end[l] < common.end ? block.end[l] : common.end;
  }
  return common;
}

template <class A, class X>
void dots(const LineBlock& block, const A* lines, const X* rows, A* scores) {
  const Common common = common_rows(block);
  const bool together = block.lines == LineBlock::kMost && common.begin < common.end;
  if (together) {
    dots_of<LineBlock::kMost>(block, 0, common.begin, common.end, lines, rows, scores);
  }
  for (int l = 0; l < block.lines; ++l) {
    const std::int64_t middle = together ? common.begin : block.end[l];
    dots_of<1>(block, l, block.begin[l], middle, lines, rows, scores);
    if (together) dots_of<1>(block, l, common.end, block.end[l], lines, rows, scores);
  }
}

template <class A, class X>
void weighted_sums(const LineBlock& block, const A* weights, const X* rows, A* sums) {
  const Common common = common_rows(block);
  const bool together = block.lines == LineBlock::kMost && common.begin < common.end;
  for (int l = 0; l < block.lines; ++l) {
    const std::int64_t middle = together ? common.begin : block.end[l];
    weighted_sums_of<1>(block, l, block.begin[l], middle, weights, rows, sums);
  }
  if (!together) return;
  weighted_sums_of<LineBlock::kMost>(block, 0, common.begin, common.end, weights, rows, sums);
  for (int l = 0; l < block.lines; ++l) {
    weighted_sums_of<1>(block, l, common.end, block.end[l], weights, rows, sums);
  }
}

template <class A, class X>
constexpr RowKernels<A, X> row_kernels() {
  return {dots<A, X>, weighted_sums<A, X>};
}

}  // namespace
}  // namespace strata::cpu
