// This file computes dk and dv for flash_backward.cu with head dim 256.
//
// A block owns 64 keys of one kv head. Its eight warps are four pairs: both warps of a pair have
// the same 16 keys, and each has one of the results, since dk and dv together do not fit a warp's
// registers. The warp of dv holds k, computes P^T from k q^T and hands it to the warp of dk in f32,
// through shared memory: a lane leaves what the same lane of the other warp reads. That one holds v
// and computes dS^T from it and v d_o^T. So nothing is computed twice, as on compute capability 9.0
// (docs/decisions/0049). Otherwise the kernel is the one for smaller heads.
//
// With a cap P^T is handed over times the slope of the score: dS has both as factors. Not measured.

#include <cuda_runtime.h>

#include "kernels/cuda/attention/portable/flash_backward.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace flash_backward {

namespace {

using Sizes = FlashWideKeyGradientTile;
using Tile = SharedTile<Sizes::kHeadDim>;

constexpr int kPairs = Sizes::kKeys / 16;
constexpr int kThreads = 32 * 2 * kPairs;
constexpr int kQueryBlocks = Sizes::kQueriesPerStep / 8;
// Keys, and values after them, pass through the stages on their way to registers; at the end the
// rows of each warp do on their way to global memory.
static_assert(Sizes::kStageBytes == Sizes::kKeys * Tile::kRowBytes);
static_assert(Sizes::kKeys == kKeysPerBlock);

/// At these barriers the warp of dk waits until that of dv has written P. A pair has one for each
/// step of a stage; before it is used again the whole block meets.
enum class ProbabilitiesWritten : int { kFirst = 1 };

__device__ __forceinline__ ProbabilitiesWritten barrier_of(int pair, int step) {
  return static_cast<ProbabilitiesWritten>(static_cast<int>(ProbabilitiesWritten::kFirst) +
                                           step * kPairs + pair);
}
__device__ __forceinline__ void wait_for(ProbabilitiesWritten name) {
  asm volatile("bar.sync %0, 64;" ::"r"(static_cast<int>(name)) : "memory");
}
__device__ __forceinline__ void arrive_at(ProbabilitiesWritten name) {
  asm volatile("bar.arrive %0, 64;" ::"r"(static_cast<int>(name)) : "memory");
}

/// What is where in the block's shared memory: two stages of queries and d_o; lse and delta of
/// both; P of the steps of a stage.
struct Memory {
  unsigned char* shared;

  __device__ unsigned char* stage(int parity) const { return shared + parity * Sizes::kStageBytes; }
  /// Returns lse of a stage's queries; delta follows.
  __device__ float* statistics(int parity) const {
    return reinterpret_cast<float*>(shared + 2 * Sizes::kStageBytes +
                                    parity * Sizes::kStatisticsBytes);
  }
  /// Returns what a lane leaves, or reads, of a pair's P: one of kQueryBlocks, 32 places apart.
  __device__ float4* probabilities(int step, int pair, int lane) const {
    auto* all =
        reinterpret_cast<float4*>(shared + 2 * (Sizes::kStageBytes + Sizes::kStatisticsBytes));
    return all + (step * kPairs + pair) * kQueryBlocks * 32 + lane;
  }
};

template <class Walk>
__device__ __forceinline__ void load_query_stage(const BackwardParams& p, const Walk& walk,
                                                 const Memory& memory, int parity) {
  constexpr int kQueries = Sizes::kQueriesPerStage;
  const int row = walk.row();
  const std::uint32_t stage = shared_address(memory.stage(parity));
  Tile::load<kQueries, kThreads>(stage, p.q.row(row, walk.head()), p.q.stride, walk.rows());
  Tile::load<kQueries, kThreads>(stage + Sizes::kTileBytes, p.d_o.row(row, walk.head()),
                                 p.d_o.stride, walk.rows());
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= 2 * kQueries) return;
  const int query = thread % kQueries;
  const float* from = thread < kQueries ? p.lse : p.delta;
  copy_async_4(shared_address(memory.statistics(parity) + thread),
               from + walk.head() * p.query_rows + row + query, query < walk.rows());
}

template <ScoreKind kScores>
__global__ void __launch_bounds__(kThreads, 1)
    flash_wide_key_gradients_kernel(const BackwardParams p) {
  constexpr bool kWindowed = kScores != ScoreKind::kPlain;
  constexpr bool kCapped = kScores == ScoreKind::kCapped;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Memory memory{shared};

  const KeyBlock block = p.blocks.template at<Sizes::kKeys>(static_cast<int>(blockIdx.x));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int pair = warp % kPairs;
  const bool has_dv = warp < kPairs;  // or dk
  const int warp_key = 16 * pair;

  float sum[1][Sizes::kHeadDim / 8][4] = {};  // dv or dk
  Bf16Pair held[Sizes::kHeadDim / 16][4];     // k or v
  QueryWalk<Sizes::kQueriesPerStage, kWindowed> walk(p.blocks.segments, block, p.group,
                                                     p.scores.window);
  if (!walk.at_end()) {
    const std::uint32_t k_tile = shared_address(shared);
    const std::uint32_t v_tile = k_tile + Sizes::kStageBytes;
    Tile::load<Sizes::kKeys, kThreads>(k_tile, p.k.row(block.begin, block.kv_head), p.k.stride,
                                       block.rows);
    Tile::load<Sizes::kKeys, kThreads>(v_tile, p.v.row(block.begin, block.kv_head), p.v.stride,
                                       block.rows);
    wait_for_copies();
    __syncthreads();
    Tile::load_operand(
        held, (has_dv ? k_tile : v_tile) + warp_key * Tile::kRowBytes + Tile::lane_offset_a(lane));
    __syncthreads();  // k and v are in registers
    load_query_stage(p, walk, memory, 0);
  }
  for (int parity = 0; !walk.at_end(); parity ^= 1) {
    const int last_key = walk.last_key() - warp_key;
    const int begin_key = walk.begin_key() - warp_key;
    const int end_key = walk.end_key() - warp_key;
    wait_for_copies();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    walk.advance();
    if (!walk.at_end()) load_query_stage(p, walk, memory, parity ^ 1);
    const std::uint32_t stage = shared_address(memory.stage(parity));
    // The first product is with these, the second one with the others.
    const std::uint32_t first = stage + (has_dv ? 0 : Sizes::kTileBytes);
    const std::uint32_t second = stage + (has_dv ? Sizes::kTileBytes : 0);
#pragma unroll
    for (int query = 0; query < Sizes::kQueriesPerStage; query += Sizes::kQueriesPerStep) {
      if (last_key + query + Sizes::kQueriesPerStep <= 0) continue;  // these see none of the keys
      if (kWindowed && last_key + query + 1 - p.scores.window >= 16) continue;  // nor do these
      const int rows = query * Tile::kRowBytes;
      const int step = query / Sizes::kQueriesPerStep;
      const float* const lse = memory.statistics(parity) + query;
      float4* const handed = memory.probabilities(step, pair, lane);
      float s[1][kQueryBlocks][4] = {};
      Tile::multiply_transposed<kQueryBlocks>(s[0], held, first + rows + Tile::lane_offset_b(lane));
      if (has_dv) {
        [[maybe_unused]] float slopes[1][kQueryBlocks][4];
        if constexpr (kCapped) cap_scores(s, slopes, p.scores);
        probabilities_transposed<kWindowed>(s, lse, p.scale_log2, last_key + query, begin_key,
                                            end_key, p.scores.window, lane);
#pragma unroll
        for (int n = 0; n < kQueryBlocks; ++n) {
          float4 part = make_float4(s[0][n][0], s[0][n][1], s[0][n][2], s[0][n][3]);
          if constexpr (kCapped) {
            part.x *= slopes[0][n][0];
            part.y *= slopes[0][n][1];
            part.z *= slopes[0][n][2];
            part.w *= slopes[0][n][3];
          }
          handed[32 * n] = part;
        }
        arrive_at(barrier_of(pair, step));
      } else {
        wait_for(barrier_of(pair, step));
        float of_pair[1][kQueryBlocks][4];
#pragma unroll
        for (int n = 0; n < kQueryBlocks; ++n) {
          const float4 part = handed[32 * n];
          of_pair[0][n][0] = part.x;
          of_pair[0][n][1] = part.y;
          of_pair[0][n][2] = part.z;
          of_pair[0][n][3] = part.w;
        }
        score_gradients_transposed(s, of_pair, lse + Sizes::kQueriesPerStage, lane);
      }
      Bf16Pair operand[1][kQueryBlocks / 2][4];
      pack_operand<1, kQueryBlocks / 2>(operand, s);
      Tile::multiply<1, kQueryBlocks / 2>(sum, operand, second + rows + Tile::lane_offset_a(lane));
    }
  }

  __syncthreads();  // nobody reads a stage any more
  if (!has_dv) multiply_by(sum, p.scale);
  const HeadRows<std::uint16_t>& to = has_dv ? p.dv : p.dk;
  Tile::store<1>(sum, shared + 16 * warp * Tile::kRowBytes,
                 to.row(block.begin + warp_key, block.kv_head), to.stride, block.rows - warp_key);
}

}  // namespace

void launch_wide_key_gradients(cudaStream_t stream, const BackwardParams& params,
                               ScoreKind scores) {
  const Launch where{
      .name = AttentionBackward::kName,
      .stream = stream,
      .grid = blocks_for(std::int64_t{params.blocks.order.tiles} * params.blocks.order.lanes, 1),
      .block = kThreads,
      .shared_bytes = Sizes::kSharedBytes};
  switch (scores) {
    case ScoreKind::kPlain:
      return launch(where, flash_wide_key_gradients_kernel<ScoreKind::kPlain>, params);
    case ScoreKind::kWindowed:
      return launch(where, flash_wide_key_gradients_kernel<ScoreKind::kWindowed>, params);
    case ScoreKind::kCapped:
      return launch(where, flash_wide_key_gradients_kernel<ScoreKind::kCapped>, params);
  }
}

}  // namespace flash_backward

const void* flash_wide_key_gradients_module() {
  return reinterpret_cast<const void*>(
      &flash_backward::flash_wide_key_gradients_kernel<ScoreKind::kPlain>);
}

}  // namespace strata::cuda
