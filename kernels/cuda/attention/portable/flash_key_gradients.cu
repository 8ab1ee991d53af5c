// This file computes dk and dv for flash_backward.cu with head dims 64 and 128.
//
// A block owns 64 keys of one kv head and walks over the queries that see them, head by head of its
// group. A warp owns 16 keys, and holds k and v in registers beside dk and dv. It computes the
// transposes k q^T and v d_o^T, whose accumulators are, once packed, operands of the products with
// d_o and q: only inputs are in shared memory, whose bandwidth limits.
//
// Measured with flash_backward.cu: it keeps shared memory 76 % busy and takes 60 % of the time of
// the backward. At head dim 128 it keeps three loop counters in local memory, outside the products.

#include <cuda_runtime.h>

#include "kernels/cuda/attention/portable/flash_backward.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace flash_backward {

namespace {

constexpr int kKeyWarps = 4;
constexpr int kKeyThreads = 32 * kKeyWarps;
static_assert(kKeysPerBlock == 16 * kKeyWarps);
constexpr int kQueriesPerStage = FlashKeyGradientTile::kQueriesPerStage;
constexpr int kQueriesPerStep = 32;  ///< the queries whose scores are in registers at once
// The block's keys and values pass through a stage on their way to registers.
static_assert(kKeysPerBlock == kQueriesPerStage);

template <int kHeadDim>
struct KeyGradientStage {
  static constexpr int kTileBytes = kQueriesPerStage * SharedTile<kHeadDim>::kRowBytes;
  static constexpr int kLseOffset = 2 * kTileBytes;  ///< lse lies after q and d_o
  static constexpr int kDeltaOffset = kLseOffset + kQueriesPerStage * 4;
  static constexpr int kBytes = kDeltaOffset + kQueriesPerStage * 4;
  static_assert(kBytes == FlashKeyGradientTile::stage_bytes(kHeadDim));
};

template <int kHeadDim, class Walk>
__device__ __forceinline__ void load_query_stage(const BackwardParams& p, const Walk& walk,
                                                 std::uint32_t stage) {
  using Tile = SharedTile<kHeadDim>;
  using Stage = KeyGradientStage<kHeadDim>;
  const int row = walk.row();
  Tile::template load<kQueriesPerStage, kKeyThreads>(stage, p.q.row(row, walk.head()), p.q.stride,
                                                     walk.rows());
  Tile::template load<kQueriesPerStage, kKeyThreads>(
      stage + Stage::kTileBytes, p.d_o.row(row, walk.head()), p.d_o.stride, walk.rows());
  const int thread = static_cast<int>(threadIdx.x);
  static_assert(kKeyThreads == 2 * kQueriesPerStage);
  const int query = thread % kQueriesPerStage;
  const float* from = thread < kQueriesPerStage ? p.lse : p.delta;
  copy_async_4(stage + Stage::kLseOffset + thread * 4,
               from + walk.head() * p.query_rows + row + query, query < walk.rows());
}

template <int kHeadDim, ScoreKind kScores>
__global__ void __launch_bounds__(kKeyThreads, 2)
    flash_key_gradients_kernel(const BackwardParams p) {
  constexpr bool kWindowed = kScores != ScoreKind::kPlain;
  constexpr bool kCapped = kScores == ScoreKind::kCapped;
  using Tile = SharedTile<kHeadDim>;
  using Stage = KeyGradientStage<kHeadDim>;
  constexpr int kSteps = kQueriesPerStep / 16;
  extern __shared__ __align__(1024) unsigned char shared[];

  const KeyBlock block = p.blocks.template at<kKeysPerBlock>(static_cast<int>(blockIdx.x));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_key = static_cast<int>(threadIdx.x) / 32 * 16;

  float dk[1][kHeadDim / 8][4] = {};
  float dv[1][kHeadDim / 8][4] = {};
  Bf16Pair k[kHeadDim / 16][4];
  Bf16Pair v[kHeadDim / 16][4];
  QueryWalk<kQueriesPerStage, kWindowed> walk(p.blocks.segments, block, p.group, p.scores.window);
  if (!walk.at_end()) {
    load_query_stage<kHeadDim>(p, walk, shared_address(shared));
    const std::uint32_t k_tile = shared_address(shared + Stage::kBytes);
    Tile::template load<kKeysPerBlock, kKeyThreads>(k_tile, p.k.row(block.begin, block.kv_head),
                                                    p.k.stride, block.rows);
    Tile::template load<kKeysPerBlock, kKeyThreads>(
        k_tile + Stage::kTileBytes, p.v.row(block.begin, block.kv_head), p.v.stride, block.rows);
    wait_for_copies();
    __syncthreads();
    const std::uint32_t k_address = k_tile + warp_key * Tile::kRowBytes + Tile::lane_offset_a(lane);
    Tile::load_operand(k, k_address);
    Tile::load_operand(v, k_address + Stage::kTileBytes);
  }
  for (int parity = 0; !walk.at_end(); parity ^= 1) {
    const int last_key = walk.last_key() - warp_key;
    const int begin_key = walk.begin_key() - warp_key;
    const int end_key = walk.end_key() - warp_key;
    wait_for_copies();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    walk.advance();
    if (!walk.at_end()) {
      load_query_stage<kHeadDim>(p, walk, shared_address(shared + (parity ^ 1) * Stage::kBytes));
    }
    const unsigned char* const stage = shared + parity * Stage::kBytes;
#pragma unroll 2
    for (int query = 0; query < kQueriesPerStage; query += kQueriesPerStep) {
      if (last_key + query + kQueriesPerStep <= 0) continue;  // these see none of the warp's keys
      if (kWindowed && last_key + query + 1 - p.scores.window >= 16) continue;  // nor do these
      const std::uint32_t q_tile = shared_address(stage) + query * Tile::kRowBytes;
      const std::uint32_t d_o_tile = q_tile + Stage::kTileBytes;
      float s[1][kQueriesPerStep / 8][4] = {};
      Tile::template multiply_transposed<kQueriesPerStep / 8>(s[0], k,
                                                              q_tile + Tile::lane_offset_b(lane));
      [[maybe_unused]] float slopes[1][kQueriesPerStep / 8][4];
      if constexpr (kCapped) cap_scores(s, slopes, p.scores);
      probabilities_transposed<kWindowed>(
          s, reinterpret_cast<const float*>(stage + Stage::kLseOffset) + query, p.scale_log2,
          last_key + query, begin_key, end_key, p.scores.window, lane);
      float dp[1][kQueriesPerStep / 8][4] = {};
      Tile::template multiply_transposed<kQueriesPerStep / 8>(dp[0], v,
                                                              d_o_tile + Tile::lane_offset_b(lane));
      score_gradients_transposed(
          dp, s, reinterpret_cast<const float*>(stage + Stage::kDeltaOffset) + query, lane);
      if constexpr (kCapped) multiply_by(dp, slopes);
      Bf16Pair operand[1][kSteps][4];
      pack_operand<1, kSteps>(operand, s);
      Tile::template multiply<1, kSteps>(dv, operand, d_o_tile + Tile::lane_offset_a(lane));
      pack_operand<1, kSteps>(operand, dp);
      Tile::template multiply<1, kSteps>(dk, operand, q_tile + Tile::lane_offset_a(lane));
    }
  }

  __syncthreads();  // nobody reads a stage any more
  multiply_by(dk, p.scale);
  unsigned char* const own_rows = shared + warp_key * Tile::kRowBytes;
  Tile::template store<1>(dk, own_rows, p.dk.row(block.begin + warp_key, block.kv_head),
                          p.dk.stride, block.rows - warp_key);
  Tile::template store<1>(dv, own_rows, p.dv.row(block.begin + warp_key, block.kv_head),
                          p.dv.stride, block.rows - warp_key);
}

template <int kHeadDim>
void launch_with_head_dim(cudaStream_t stream, const BackwardParams& params, ScoreKind scores) {
  const Launch where{
      .name = AttentionBackward::kName,
      .stream = stream,
      .grid = blocks_for(std::int64_t{params.blocks.order.tiles} * params.blocks.order.lanes, 1),
      .block = kKeyThreads,
      .shared_bytes = FlashKeyGradientTile::shared_bytes(kHeadDim)};
  switch (scores) {
    case ScoreKind::kPlain:
      return launch(where, flash_key_gradients_kernel<kHeadDim, ScoreKind::kPlain>, params);
    case ScoreKind::kWindowed:
      return launch(where, flash_key_gradients_kernel<kHeadDim, ScoreKind::kWindowed>, params);
    case ScoreKind::kCapped:
      return launch(where, flash_key_gradients_kernel<kHeadDim, ScoreKind::kCapped>, params);
  }
}

}  // namespace

void launch_key_gradients(cudaStream_t stream, const BackwardParams& params, int head_dim,
                          ScoreKind scores) {
  if (head_dim == 64) return launch_with_head_dim<64>(stream, params, scores);
  launch_with_head_dim<128>(stream, params, scores);
}

}  // namespace flash_backward

const void* flash_key_gradients_module() {
  return reinterpret_cast<const void*>(
      &flash_backward::flash_key_gradients_kernel<128, ScoreKind::kPlain>);
}

}  // namespace strata::cuda
