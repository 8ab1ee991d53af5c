// This file has what the kernels of portable attention's backward share: arguments, caps, and for
// those of dk and dv the walk over queries, probabilities and gradients of scores.
// flash_backward.cu says what is computed, and launches all of them.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <numbers>

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/common/mma.cuh"

namespace strata::cuda::flash_backward {

inline constexpr int kKeysPerBlock = 64;  ///< of the kernels of dk and dv
inline constexpr float kLog2E = static_cast<float>(std::numbers::log2e);

struct BackwardParams {
  QueryTiles tiles;  ///< the work of the kernel of dq
  KeyBlocks blocks;  ///< the work of the kernel of dk and dv
  HeadRows<const std::uint16_t> q, k, v, d_o;
  HeadRows<std::uint16_t> dq, dk, dv;
  const float* lse;
  const float* delta;
  std::int64_t query_rows;
  int group;  ///< query heads of a kv head
  float scale;
  float scale_log2;  ///< of scores in the softmax, times log2(e)
  ScoreShape scores;
};

template <int kRowBlocks, int kColumnBlocks>
__device__ void multiply_by(float (&c)[kRowBlocks][kColumnBlocks][4], float factor) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] *= factor;
    }
  }
}

/// Turns dots into capped scores and sets `slopes` to their derivatives by the scaled dots.
template <int kRowBlocks, int kColumnBlocks>
__device__ __forceinline__ void cap_scores(float (&s)[kRowBlocks][kColumnBlocks][4],
                                           float (&slopes)[kRowBlocks][kColumnBlocks][4],
                                           const ScoreShape& shape) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float t = shape.bent(s[m][n][e]);
        s[m][n][e] = shape.cap * t;
        slopes[m][n][e] = fmaf(-t, t, 1.0f);
      }
    }
  }
}
template <int kRowBlocks, int kColumnBlocks>
__device__ __forceinline__ void multiply_by(float (&c)[kRowBlocks][kColumnBlocks][4],
                                            const float (&factors)[kRowBlocks][kColumnBlocks][4]) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] *= factors[m][n][e];
    }
  }
}

/// The tiles of kQueries queries that see a block of keys: segment by segment, head by head, from
/// the first query that sees any of the keys to the segment's last, or the last whose window has
/// one. Small, as registers are scarce.
template <int kQueries, bool kWindowed>
class QueryWalk {
 public:
  __device__ QueryWalk(const Segments& segments, const KeyBlock& block, int group, int window)
      : segments_(segments),
        block_(block),
        group_(group),
        window_(kWindowed ? window : 0),
        index_(block.first_segment) {
    enter_segment();
  }

  __device__ bool at_end() const { return index_ >= block_.end_segment; }
  __device__ void advance() {
    row_ += kQueries;
    if (row_ < end_row_) return;
    row_ = first_row_;
    if (++head_ < group_) return;
    head_ = 0;
    ++index_;
    enter_segment();
  }
  __device__ int head() const { return block_.kv_head * group_ + head_; }
  __device__ int row() const { return row_; }              ///< the tile's first, in q
  __device__ int rows() const { return end_row_ - row_; }  ///< it may exceed the tile
  /// Returns the last key that the tile's first query sees; this and the next two count from the
  /// block's first.
  __device__ int last_key() const { return row_ + key_shift_; }
  __device__ int begin_key() const { return begin_key_; }
  __device__ int end_key() const { return end_key_; }

 private:
  /// Goes on to the first segment from index_ on that has queries for the block.
  __device__ void enter_segment() {
    for (; index_ < block_.end_segment; ++index_) {
      const Segment segment = segments_.at(index_);
      if (segment.q_length == 0) break;  // the rest of the table is unused
      const int first_key = segment.k_begin - block_.begin;
      begin_key_ = max(0, first_key);
      end_key_ = min(block_.rows, first_key + segment.k_length);
      key_shift_ = first_key + segment.q_offset - segment.q_begin;
      first_row_ = max(segment.q_begin, begin_key_ - key_shift_);
      end_row_ = segment.q_begin + segment.q_length;
      if constexpr (kWindowed) end_row_ = min(end_row_, end_key_ - 1 - key_shift_ + window_);
      row_ = first_row_;
      if (begin_key_ < end_key_ && first_row_ < end_row_) return;
    }
    index_ = block_.end_segment;
  }

  const Segments& segments_;
  const KeyBlock& block_;
  int group_;
  int window_;
  int index_;
  int head_ = 0;
  int row_ = 0;
  int first_row_ = 0;
  int end_row_ = 0;
  int key_shift_ = 0;  ///< from a row of q to the last key that it sees
  int begin_key_ = 0;
  int end_key_ = 0;
};

/// Computes P^T from scores [16 keys, 8 kQueryBlocks], in place: rows lane / 4 and lane / 4 + 8
/// are keys, columns are queries. Keys outside [begin_key, end_key), after a query's last key or
/// before its window get 0; all of these count from the warp's first key. Queries after the walk's
/// end have lse 0 and d_o 0: they add nothing.
template <bool kWindowed, int kQueryBlocks>
__device__ __forceinline__ void probabilities_transposed(float (&s)[1][kQueryBlocks][4],
                                                         const float* lse, float scale_log2,
                                                         int last_key, int begin_key, int end_key,
                                                         int window, int lane) {
  const bool masked = last_key < 15 || begin_key > 0 || end_key < 16 ||
                      (kWindowed && last_key + 8 * kQueryBlocks > window);
#pragma unroll
  for (int n = 0; n < kQueryBlocks; ++n) {
    const float2 of_queries = *reinterpret_cast<const float2*>(lse + n * 8 + lane % 4 * 2);
    const float base[2] = {of_queries.x * kLog2E, of_queries.y * kLog2E};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[0][n][e] = fast_exp2(fmaf(s[0][n][e], scale_log2, -base[e & 1]));
    }
  }
  if (!masked) return;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int key = lane / 4 + (e >> 1) * 8;
    const int first_query = key - last_key - lane % 4 * 2 - (e & 1);
    const bool inside = key >= begin_key && key < end_key;
#pragma unroll
    for (int n = 0; n < kQueryBlocks; ++n) {
      if (!inside || n * 8 < first_query) s[0][n][e] = 0;
      if (kWindowed && n * 8 >= first_query + window) s[0][n][e] = 0;
    }
  }
}

/// Computes dS^T = P^T * (dP^T - delta), into dp.
template <int kQueryBlocks>
__device__ __forceinline__ void score_gradients_transposed(float (&dp)[1][kQueryBlocks][4],
                                                           const float (&p)[1][kQueryBlocks][4],
                                                           const float* delta, int lane) {
#pragma unroll
  for (int n = 0; n < kQueryBlocks; ++n) {
    const float2 of_queries = *reinterpret_cast<const float2*>(delta + n * 8 + lane % 4 * 2);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      dp[0][n][e] = p[0][n][e] * (dp[0][n][e] - (e & 1 ? of_queries.y : of_queries.x));
    }
  }
}

/// Computes dk and dv with head dims 64 and 128.
void launch_key_gradients(cudaStream_t stream, const BackwardParams& params, int head_dim,
                          ScoreKind scores);
/// Computes dk and dv with head dim 256;
void launch_wide_key_gradients(cudaStream_t stream, const BackwardParams& params, ScoreKind scores);

}  // namespace strata::cuda::flash_backward
