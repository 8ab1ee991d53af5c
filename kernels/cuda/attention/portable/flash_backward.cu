// This file computes the backward of attention on the tensor cores of any GPU since compute
// capability 8.0. attention.cu launches it for bf16 with head dims 64, 128 and 256 where the sm_90a
// kernels do not take the operator. The result has the same bits every time; a rotation is left to
// the caller.
//
// Gradients of flash_forward.cu: with P = exp(scale * q k^T - lse), delta = rowsum(d_o * o),
// dS = P * (d_o v^T - delta): dv = P^T d_o, dk = scale * dS^T q, dq = scale * dS k; dk and dv sum
// over the query heads of a kv head. Shapes and dtypes as there; delta [H, Nq] f32 is scratch. With
// a window or a cap see AttentionBackward; tiles outside of all windows are not loaded.
//
// Three kernels, none of which needs an atomic, so the result is the same bit by bit every time:
//
// - delta: attention_delta.cu.
// - dk, dv: flash_key_gradients.cu, and with head dim 256 flash_wide_key_gradients.cu.
// - dq, here: a block owns 128 queries of one head, 64 with head dim 256, and walks over keys as
//   the forward does.
//
// Scores are computed twice (7 products instead of 5); what that buys is determinism without a
// queue.
//
// Numerics: f32 accumulators; P and dS rounded to bf16 as operands; gradients rounded once.
//
// Measured (attention_bench, NVIDIA H200, November 2026), 32 heads, TFLOP/s of the 5 products: head
// dim 128 at 2k, 4k, 8k, 16k tokens a row 234, 245, 257, 260; head dim 64 at 4k 231. Head dim 256
// was not measured.
//
// The plain version of the same is attention_reference_backward.cu.

#include <cuda_runtime.h>

#include <numbers>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/portable/flash_backward.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace flash_backward {

namespace {

constexpr int kQueryThreads = 32 * kFlashWarps;

/// How many keys a stage has: scores, their gradients and dq together fill the registers.
template <int kHeadDim>
constexpr int kKeysPerStage = FlashQueryGradientTile::keys_per_stage(kHeadDim);

/// Computes dS from scores and dP, into s: 0 where a row does not see the key. `last_key` belongs
/// to the warp's first row and `end_key` to the segment; both count from the tile's first key.
template <bool kWindowed, int kRowBlocks, int kKeyBlocks>
__device__ __forceinline__ void score_gradients(float (&s)[kRowBlocks][kKeyBlocks][4],
                                                const float (&dp)[kRowBlocks][kKeyBlocks][4],
                                                const float (&lse_log2)[kRowBlocks][2],
                                                const float (&delta)[kRowBlocks][2],
                                                float scale_log2, int last_key, int end_key,
                                                int window, int lane) {
  const bool masked = min(last_key + 1, end_key) < kKeyBlocks * 8 ||
                      (kWindowed && last_key + 16 * kRowBlocks > window);
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float p = fast_exp2(fmaf(s[m][n][e], scale_log2, -lse_log2[m][e >> 1]));
        s[m][n][e] = p * (dp[m][n][e] - delta[m][e >> 1]);
      }
    }
  }
  if (!masked) return;
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = m * 16 + (e >> 1) * 8 + lane / 4;
      const int end = min(last_key + row + 1, end_key) - lane % 4 * 2 - (e & 1);
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
        if (n * 8 >= end) s[m][n][e] = 0;
      }
      if constexpr (kWindowed) {
        const int begin = last_key + row + 1 - window - lane % 4 * 2 - (e & 1);
#pragma unroll
        for (int n = 0; n < kKeyBlocks; ++n) {
          if (n * 8 < begin) s[m][n][e] = 0;
        }
      }
    }
  }
}

template <int kHeadDim, ScoreKind kScores>
__global__ void __launch_bounds__(kQueryThreads, 2)
    flash_query_gradients_kernel(const BackwardParams p) {
  constexpr bool kWindowed = kScores != ScoreKind::kPlain;
  constexpr bool kCapped = kScores == ScoreKind::kCapped;
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
  const std::uint32_t d_o_tile = q_tile + kQueries * Tile::kRowBytes;
  const std::uint32_t stages = d_o_tile + kQueries * Tile::kRowBytes;  // each has keys, then values
  const auto load_keys = [&](int j) {
    const int first = j * kKeys;
    const std::uint32_t stage = stages + (j & 1) * 2 * kTileBytes;
    Tile::template load<kKeys, kQueryThreads>(stage, p.k.row(segment.k_begin + first, kv_head),
                                              p.k.stride, segment.k_length - first);
    Tile::template load<kKeys, kQueryThreads>(stage + kTileBytes,
                                              p.v.row(segment.k_begin + first, kv_head), p.v.stride,
                                              segment.k_length - first);
  };

  float lse_log2[kRowBlocks][2];
  float delta[kRowBlocks][2];
#pragma unroll
  for (int m = 0; m < kRowBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + m * 16 + half * 8 + lane / 4;
      const std::int64_t at = tile.head * p.query_rows + tile.first_row() + row;
      lse_log2[m][half] = row < tile.rows ? p.lse[at] * kLog2E : 0.0f;
      delta[m][half] = row < tile.rows ? p.delta[at] : 0.0f;
    }
  }

  float dq[kRowBlocks][kHeadDim / 8][4] = {};
  const int key_tiles = (tile.visible_keys() + kKeys - 1) / kKeys;
  const int first_tile = kWindowed ? tile.first_key(p.scores.window) / kKeys : 0;
  if (key_tiles > first_tile) {
    Tile::template load<kQueries, kQueryThreads>(q_tile, p.q.row(tile.first_row(), tile.head),
                                                 p.q.stride, tile.rows);
    Tile::template load<kQueries, kQueryThreads>(d_o_tile, p.d_o.row(tile.first_row(), tile.head),
                                                 p.d_o.stride, tile.rows);
    load_keys(key_tiles - 1);
  }
  const std::uint32_t q_address = q_tile + warp_row * Tile::kRowBytes + Tile::lane_offset_a(lane);
  const std::uint32_t d_o_address = q_address + kQueries * Tile::kRowBytes;
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
    float dp[kRowBlocks][kKeys / 8][4] = {};
    Tile::template multiply_transposed<kRowBlocks, kKeys / 8>(
        dp, d_o_address, stage + kTileBytes + Tile::lane_offset_b(lane));
    [[maybe_unused]] float slopes[kRowBlocks][kKeys / 8][4];
    if constexpr (kCapped) cap_scores(s, slopes, p.scores);
    score_gradients<kWindowed>(s, dp, lse_log2, delta, p.scale_log2, last_key,
                               segment.k_length - j * kKeys, p.scores.window, lane);
    if constexpr (kCapped) multiply_by(s, slopes);
    Bf16Pair operand[kRowBlocks][kKeys / 16][4];
    pack_operand<kRowBlocks, kKeys / 16>(operand, s);
    Tile::template multiply<kRowBlocks, kKeys / 16>(dq, operand, stage + Tile::lane_offset_a(lane));
  }

  // A warp alone reads its rows of q, so it may put its rows of dq there without a barrier.
  multiply_by(dq, p.scale);
  Tile::template store<kRowBlocks>(dq, shared + warp_row * Tile::kRowBytes,
                                   p.dq.row(tile.first_row() + warp_row, tile.head), p.dq.stride,
                                   tile.rows - warp_row);
}

template <int kHeadDim, ScoreKind kScores>
void launch_backward(cudaStream_t stream, const AttentionBackward& op) {
  const BackwardParams params{
      .tiles = make_query_tiles(op.segments, op.q, op.k, flash_queries(kHeadDim)),
      .blocks = make_key_blocks(op.segments, op.q, op.k, kKeysPerBlock),
      .q = head_rows<const std::uint16_t>(op.q),
      .k = head_rows<const std::uint16_t>(op.k),
      .v = head_rows<const std::uint16_t>(op.v),
      .d_o = head_rows<const std::uint16_t>(op.d_o),
      .dq = head_rows<std::uint16_t>(op.dq),
      .dk = head_rows<std::uint16_t>(op.dk),
      .dv = head_rows<std::uint16_t>(op.dv),
      .lse = op.lse.as<float>(),
      .delta = op.delta.as<float>(),
      .query_rows = op.q.shape[0],
      .group = narrow<int>(op.q.shape[1] / op.k.shape[1]),
      .scale = static_cast<float>(op.scale),
      .scale_log2 = static_cast<float>(softmax_scale(op) * std::numbers::log2e),
      .scores = score_shape(op),
  };
  launch_attention_delta(stream, op);
  if constexpr (kHeadDim == FlashWideKeyGradientTile::kHeadDim) {
    launch_wide_key_gradients(stream, params, kScores);
  } else {
    launch_key_gradients(stream, params, kHeadDim, kScores);
  }
  launch({.name = AttentionBackward::kName,
          .stream = stream,
          .grid = blocks_for(std::int64_t{params.tiles.order.tiles} * params.tiles.order.lanes, 1),
          .block = kQueryThreads,
          .shared_bytes = FlashQueryGradientTile::shared_bytes(kHeadDim)},
         flash_query_gradients_kernel<kHeadDim, kScores>, params);
}

}  // namespace

}  // namespace flash_backward

void launch_flash_backward(cudaStream_t stream, const AttentionBackward& op) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    switch (op.q.shape[2]) {
      case 64: return flash_backward::launch_backward<64, kScores>(stream, op);
      case 128: return flash_backward::launch_backward<128, kScores>(stream, op);
      default: return flash_backward::launch_backward<256, kScores>(stream, op);
    }
  });
}

const void* flash_backward_module() {
  return reinterpret_cast<const void*>(
      &flash_backward::flash_query_gradients_kernel<128, ScoreKind::kPlain>);
}

}  // namespace strata::cuda
