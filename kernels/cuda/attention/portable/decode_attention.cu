// This file computes attention where each segment is one query over a cache: generation, past the
// prompt. attention.cu launches it for bf16 with head dims 64 and 128, on any GPU since compute
// capability 8.0.
//
// o = softmax(scale * q k^T) v per head, and lse = log(sum(exp(scores))). q [N, H, D], k, v [R, K,
// D], o [N, H, D] bf16, lse [H, N] f32; query n sees the keys of segment n alone.
//
// A query's keys are cut into parts of 256 (Flash-Decoding, Dao et al. 2023), so that one long
// sequence fills the GPU too. A block owns a part for one kv head: all query heads that read it
// together, 16 of them at once, which are the 16 rows of tensor-core products. Each of its 4 warps
// walks over strips of 16 keys with a running maximum and sum, through a ring in shared memory of
// its own: no barriers. Then warps are joined in their order, and by a second kernel the parts in
// theirs. A query with one part needs no second kernel.
//
// Numerics: as flash_forward.cu. What becomes of a query depends on its keys alone: not on other
// queries, nor on how many parts those have.
//
// Measured on one H200 (docs/measurements/generation-2026-11-24.md).
// The plain version of the same is attention_reference.cu.

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kWarps = DecodeTile::kWarps;
constexpr int kHeads = DecodeTile::kHeads;
constexpr int kStripKeys = DecodeTile::kStripKeys;
constexpr int kStages = DecodeTile::kStages;

struct DecodeParams {
  DecodeTask task;
  HeadRows<const std::uint16_t> k, v;
};

template <int kHeadDim>
__global__ void __launch_bounds__(kDecodeThreads, 3) decode_attention(const DecodeParams p) {
  begin_chained();
  using Tile = SharedTile<kHeadDim>;
  constexpr std::uint32_t kStripBytes = DecodeTile::strip_bytes(kHeadDim);
  extern __shared__ __align__(1024) unsigned char shared[];
  const DecodeTask& task = p.task;
  const DecodeBlock block = DecodeBlock::of(task);
  if (!block.computes()) return;
  const int keys = block.keys;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  // The q tile is brought by the first warp; each warp brings its own keys and values.
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t ring =
      q_tile + kHeads * Tile::kRowBytes + warp * DecodeTile::ring_bytes(kHeadDim);
  const auto bring_strip = [&](int strip) {
    const int first = DecodeBlock::first_key(strip, warp);
    if (strip < kDecodeStrips && first < keys) {
      const std::uint32_t to = ring + strip % kStages * kStripBytes;
#pragma unroll
      for (int i = 0; i < kStripKeys * Tile::kChunks / 32; ++i) {
        const int row = (i * 32 + lane) / Tile::kChunks;
        const int chunk = (i * 32 + lane) % Tile::kChunks;
        const bool valid = first + row < keys;
        const int at = block.segment.k_begin + block.begin + (valid ? first + row : 0);
        const std::uint32_t offset = Tile::offset(row, chunk);
        copy_async_16(to + offset, p.k.row(at, block.kv_head) + chunk * 8, valid);
        copy_async_16(to + kStripBytes / 2 + offset, p.v.row(at, block.kv_head) + chunk * 8, valid);
      }
    }
    end_copy_group();  // also of nothing, so that the groups can be counted
  };
  for (int piece = static_cast<int>(threadIdx.x); piece < kHeads * Tile::kChunks;
       piece += kDecodeThreads) {
    const int row = piece / Tile::kChunks;
    const int chunk = piece % Tile::kChunks;
    copy_async_16(q_tile + Tile::offset(row, chunk),
                  task.q.row(block.query, block.head + (row < block.heads ? row : 0)) + chunk * 8,
                  row < block.heads);
  }
  end_copy_group();
#pragma unroll
  for (int strip = 0; strip < kStages - 1; ++strip) bring_strip(strip);
  wait_for_copy_groups<kStages - 1>();
  __syncthreads();  // q is there
  Bf16Pair q[kHeadDim / 16][4];
  Tile::load_operand(q, q_tile + Tile::lane_offset_a(lane));

  float o[1][kHeadDim / 8][4] = {};
  Statistics rows[2] = {kNothing, kNothing};
  for (int strip = 0; strip < kDecodeStrips; ++strip) {
    const int left = keys - DecodeBlock::first_key(strip, warp);
    if (left <= 0) break;
    wait_for_copy_groups<kStages - 2>();
    __syncwarp();  // this strip is there, and no lane reads the one before any more
    bring_strip(strip + kStages - 1);
    const std::uint32_t stage = ring + strip % kStages * kStripBytes;
    float s[2][4] = {};
    Tile::template multiply_transposed<2>(s, q, stage + Tile::lane_offset_b(lane));
    softmax_step<kHeadDim>(s, o[0], rows, left, task.scale_log2, lane);
    float scores[1][2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[0][n][i] = s[n][i];
    }
    Bf16Pair probabilities[1][1][4];
    pack_operand<1, 1>(probabilities, scores);
    Tile::template multiply<1, 1>(o, probabilities,
                                  stage + kStripBytes / 2 + Tile::lane_offset_a(lane));
  }
  wait_for_copies();
  __syncthreads();  // rings are free for the results of warps

  float* const results = reinterpret_cast<float*>(shared);  // [warps, heads, D]
  __shared__ Statistics statistics[kWarps][kHeads];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane / 4;
    const float sum = row_sum(rows[half].sum);
    if (lane % 4 == 0) statistics[warp][row] = {rows[half].maximum, sum};
    float* const to = results + (warp * kHeads + row) * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      to[n * 8] = o[0][n][2 * half];
      to[n * 8 + 1] = o[0][n][2 * half + 1];
    }
  }
  __syncthreads();
  join_warps<kHeadDim>(task, block, results, statistics);
}

template <int kHeadDim>
void launch_decode(cudaStream_t stream, const AttentionForward& op) {
  DecodeTask task = decode_task(op, op.segments.table, op.k.shape[1]);
  task.lse = op.lse.as<float>();
  const DecodeParams params{.task = task,
                            .k = head_rows<const std::uint16_t>(op.k),
                            .v = head_rows<const std::uint16_t>(op.v)};
  launch_decode_parts<kHeadDim>(AttentionForward::kName, stream, task, decode_attention<kHeadDim>,
                                params, DecodeTile::shared_bytes(kHeadDim));
}

}  // namespace

void launch_decode_attention(cudaStream_t stream, const AttentionForward& op) {
  if (op.q.shape[2] == 64) {
    launch_decode<64>(stream, op);
  } else {
    launch_decode<128>(stream, op);
  }
}

const void* decode_attention_module() {
  return reinterpret_cast<const void*>(&decode_attention<128>);
}

}  // namespace strata::cuda
