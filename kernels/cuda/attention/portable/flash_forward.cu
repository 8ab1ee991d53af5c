// This file computes the forward of attention on the tensor cores of any GPU since compute
// capability 8.0. attention.cu launches it for bf16 with head dims 64, 128 and 256 where the
// sm_90a kernels do not take the operator.
//
// o = softmax(scale * q k^T) v per head, causal within segments, and lse = log(sum(exp(scores))).
// Scores may have a window or be capped, see AttentionForward.
// q [Nq, H, D], k, v [Nk, K, D], o [Nq, H, D] bf16, lse [H, Nq] f32; D is 64, 128 or 256.
//
// A block of 4 warps owns 128 queries of one head; a warp owns 32 of them, so that a fragment of k
// or v read from shared memory serves two products (with 16 rows shared memory is the limit). With
// D = 256 o of so many rows does not fit the registers: a warp owns 16, and a block 64. A block
// walks over tiles of keys from the diagonal to the left with a running maximum and sum
// (FlashAttention, Dao et al. 2022, algorithm 1; 2023, section 3.1), so scores never leave
// registers. Keys and values are double buffered by asynchronous copies: one barrier a tile. Tiles
// right of the diagonal or left of all windows are not loaded; those that every row sees wholly run
// without mask.
//
// Numerics: scores, maximum, sum and o in f32; exp as 2^x with log2(e) folded into the scale;
// probabilities rounded to bf16 for the second product; o and lse rounded once.
//
// Measured (attention_bench, NVIDIA H200, November 2026), 32 heads, TFLOP/s: head dim 128 at 2k,
// 4k, 8k, 16k tokens a row 323, 347, 360, 358; head dim 64 at 4k 314. That is 35 % of the tensor
// cores' dense peak. Head dim 256 was not measured.
//
// The plain version of the same is attention_reference.cu.

#include <cuda_runtime.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kThreads = 32 * kFlashWarps;
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

struct ForwardParams {
  QueryTiles tiles;
  HeadRows<const std::uint16_t> q, k, v;
  HeadRows<std::uint16_t> o;
  float* lse;
  std::int64_t query_rows;
  int group;         ///< query heads of a kv head
  float scale;       ///< of scores in the softmax
  float scale_log2;  ///< scale * log2(e)
  ScoreShape scores;
};

template <int kHeadDim>
constexpr int kKeysPerStage = FlashForwardTile::keys_per_stage(kHeadDim);

/// What is known of the rows of one warp: running maximum and sum (of this lane's columns only) of
/// rows 16 * m + 8 * half + lane / 4.
template <int kRowBlocks>
struct RowStatistics {
  float maximum[kRowBlocks][2];
  float sum[kRowBlocks][2];
};

/// Turns scores into probabilities relative to the new maximum and rescales what was summed so far.
template <int kRowBlocks, int kKeyBlocks, int kColumnBlocks>
__device__ __forceinline__ void softmax_step(float (&s)[kRowBlocks][kKeyBlocks][4],
                                             float (&o)[kRowBlocks][kColumnBlocks][4],
                                             RowStatistics<kRowBlocks>& rows, float scale_log2) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
    float correction[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = rows.maximum[m][half];
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
        maximum = fmaxf(maximum, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      }
      maximum = row_max(maximum);
      // A row that has seen no key yet keeps probabilities of 0 instead of exp(-inf - -inf).
      const float base = maximum == kNoScore ? 0.0f : maximum * scale_log2;
      correction[half] = fast_exp2(rows.maximum[m][half] * scale_log2 - base);
      rows.maximum[m][half] = maximum;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          s[m][n][e] = fast_exp2(fmaf(s[m][n][e], scale_log2, -base));
          sum += s[m][n][e];
        }
      }
      rows.sum[m][half] = fmaf(rows.sum[m][half], correction[half], sum);
    }
    // Multiplying by 1 is the most common case and changes nothing.
    if (__any_sync(~0u, correction[0] != 1.0f || correction[1] != 1.0f)) {
#pragma unroll
      for (int n = 0; n < kColumnBlocks; ++n) {
        o[m][n][0] *= correction[0];
        o[m][n][1] *= correction[0];
        o[m][n][2] *= correction[1];
        o[m][n][3] *= correction[1];
      }
    }
  }
}

/// Turns dots into capped scores.
template <int kRowBlocks, int kKeyBlocks>
__device__ __forceinline__ void cap_scores(float (&s)[kRowBlocks][kKeyBlocks][4],
                                           const ScoreShape& shape) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[m][n][e] = shape.cap * shape.bent(s[m][n][e]);
    }
  }
}

/// Removes scores of keys that a row does not see. `last_key` belongs to the warp's first row, and
/// `end_key` to the segment, both relative to the tile's first key.
template <bool kWindowed, int kRowBlocks, int kKeyBlocks>
__device__ __forceinline__ void mask_scores(float (&s)[kRowBlocks][kKeyBlocks][4], int last_key,
                                            int end_key, int window, int lane) {
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + lane / 4;
      const int end = min(last_key + row + 1, end_key) - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
        if (n * 8 >= end) s[m][n][2 * half] = kNoScore;
        if (n * 8 + 1 >= end) s[m][n][2 * half + 1] = kNoScore;
      }
      if constexpr (kWindowed) {
        const int begin = last_key + row + 1 - window - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
          if (n * 8 < begin) s[m][n][2 * half] = kNoScore;
          if (n * 8 + 1 < begin) s[m][n][2 * half + 1] = kNoScore;
        }
      }
    }
  }
}

template <int kHeadDim, ScoreKind kScores>
__global__ void __launch_bounds__(kThreads, 2) flash_forward_kernel(const ForwardParams p) {
  constexpr bool kWindowed = kScores != ScoreKind::kPlain;
  using Tile = SharedTile<kHeadDim>;
  constexpr int kRowBlocks = flash_row_blocks(kHeadDim);
  constexpr int kWarpRows = 16 * kRowBlocks;
  constexpr int kQueries = flash_queries(kHeadDim);
  constexpr int kKeys = kKeysPerStage<kHeadDim>;
  constexpr std::uint32_t kTileBytes = kKeys * Tile::kRowBytes;
  extern __shared__ __align__(1024) unsigned char shared[];

  QueryTile tile;
  if (!p.tiles.template locate<kQueries>(static_cast<int>(blockIdx.x), tile)) return;
  const Segment& segment = tile.segment;
  const int kv_head = tile.head / p.group;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;

  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t stages = q_tile + kQueries * Tile::kRowBytes;  // each has keys, then values
  const auto load_keys = [&](int j) {
    const int first = j * kKeys;
    const std::uint32_t stage = stages + (j & 1) * 2 * kTileBytes;
    Tile::template load<kKeys, kThreads>(stage, p.k.row(segment.k_begin + first, kv_head),
                                         p.k.stride, segment.k_length - first);
    Tile::template load<kKeys, kThreads>(stage + kTileBytes,
                                         p.v.row(segment.k_begin + first, kv_head), p.v.stride,
                                         segment.k_length - first);
  };

  float o[kRowBlocks][kHeadDim / 8][4] = {};
  RowStatistics<kRowBlocks> rows;
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.maximum[m][half] = kNoScore;
      rows.sum[m][half] = 0;
    }
  }

  const int key_tiles = (tile.visible_keys() + kKeys - 1) / kKeys;
  const int unmasked_tiles = tile.keys_seen_by_all() / kKeys;
  const int first_tile = kWindowed ? tile.first_key(p.scores.window) / kKeys : 0;
  if (key_tiles > first_tile) {
    Tile::template load<kQueries, kThreads>(q_tile, p.q.row(tile.first_row(), tile.head),
                                            p.q.stride, tile.rows);
    load_keys(key_tiles - 1);
  }
  const std::uint32_t q_address = q_tile + warp_row * Tile::kRowBytes + Tile::lane_offset_a(lane);
  for (int j = key_tiles - 1; j >= first_tile; --j) {
    wait_for_copies();
    __syncthreads();  // tile j is there, and nobody reads tile j + 1 any more
    if (j > first_tile) load_keys(j - 1);
    const int last_key = tile.last_key() + warp_row - j * kKeys;
    if (last_key + kWarpRows <= 0) continue;  // it is right of the diagonal for the whole warp
    if (kWindowed && last_key + 1 - p.scores.window >= kKeys) continue;  // or left of its windows

    const std::uint32_t stage = stages + (j & 1) * 2 * kTileBytes;
    float s[kRowBlocks][kKeys / 8][4] = {};
    Tile::template multiply_transposed<kRowBlocks, kKeys / 8>(s, q_address,
                                                              stage + Tile::lane_offset_b(lane));
    if constexpr (kScores == ScoreKind::kCapped) cap_scores(s, p.scores);
    if (j >= unmasked_tiles || (kWindowed && last_key + kWarpRows > p.scores.window)) {
      mask_scores<kWindowed>(s, last_key, segment.k_length - j * kKeys, p.scores.window, lane);
    }
    softmax_step(s, o, rows, p.scale_log2);
    Bf16Pair probabilities[kRowBlocks][kKeys / 16][4];
    pack_operand<kRowBlocks, kKeys / 16>(probabilities, s);
    Tile::template multiply<kRowBlocks, kKeys / 16>(o, probabilities,
                                                    stage + kTileBytes + Tile::lane_offset_a(lane));
  }

#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(rows.sum[m][half]);
      const float inverse = sum > 0 ? 1 / sum : 0.0f;
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        o[m][n][2 * half] *= inverse;
        o[m][n][2 * half + 1] *= inverse;
      }
      const int row = warp_row + m * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && row < tile.rows) {
        p.lse[tile.head * p.query_rows + tile.first_row() + row] =
            sum > 0 ? fmaf(rows.maximum[m][half], p.scale, logf(sum)) : kNoScore;
      }
    }
  }
  // A warp alone reads its rows of q, so it may put its rows of o there without a barrier.
  Tile::template store<kRowBlocks>(o, shared + warp_row * Tile::kRowBytes,
                                   p.o.row(tile.first_row() + warp_row, tile.head), p.o.stride,
                                   tile.rows - warp_row);
}

template <int kHeadDim, ScoreKind kScores>
void launch_forward(cudaStream_t stream, const AttentionForward& op) {
  const ForwardParams params{
      .tiles = make_query_tiles(op.segments, op.q, op.k, flash_queries(kHeadDim)),
      .q = head_rows<const std::uint16_t>(op.q),
      .k = head_rows<const std::uint16_t>(op.k),
      .v = head_rows<const std::uint16_t>(op.v),
      .o = head_rows<std::uint16_t>(op.o),
      .lse = op.lse.as<float>(),
      .query_rows = op.q.shape[0],
      .group = narrow<int>(op.q.shape[1] / op.k.shape[1]),
      .scale = static_cast<float>(softmax_scale(op)),
      .scale_log2 = static_cast<float>(softmax_scale(op) * std::numbers::log2e),
      .scores = score_shape(op),
  };
  launch({.name = AttentionForward::kName,
          .stream = stream,
          .grid = blocks_for(std::int64_t{params.tiles.order.tiles} * params.tiles.order.lanes, 1),
          .block = kThreads,
          .shared_bytes = FlashForwardTile::shared_bytes(kHeadDim)},
         flash_forward_kernel<kHeadDim, kScores>, params);
}

}  // namespace

void launch_flash_forward(cudaStream_t stream, const AttentionForward& op) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    switch (op.q.shape[2]) {
      case 64: return launch_forward<64, kScores>(stream, op);
      case 128: return launch_forward<128, kScores>(stream, op);
      default: return launch_forward<256, kScores>(stream, op);
    }
  });
}

const void* flash_forward_module() {
  return reinterpret_cast<const void*>(&flash_forward_kernel<128, ScoreKind::kPlain>);
}

}  // namespace strata::cuda
