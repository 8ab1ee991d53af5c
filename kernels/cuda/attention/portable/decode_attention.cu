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

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace {

constexpr int kWarps = DecodeTile::kWarps;
constexpr int kThreads = 32 * kWarps;
constexpr int kHeads = DecodeTile::kHeads;
constexpr int kStripKeys = DecodeTile::kStripKeys;
constexpr int kStages = DecodeTile::kStages;
constexpr int kPartKeys = static_cast<int>(AttentionForward::kPartKeys);
constexpr int kStrips = kPartKeys / (kWarps * kStripKeys);  ///< of a warp
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

struct DecodeParams {
  Segments segments;
  HeadRows<const std::uint16_t> q, k, v;
  HeadRows<std::uint16_t> o;
  float* lse;
  float* parts;  ///< [queries, most_parts, heads, D + 2]: unscaled sums of v, maximum, sum
  int queries;
  int heads;
  int group;  ///< query heads of a kv head
  int most_parts;
  float scale;
  float scale_log2;  ///< scale * log2(e)

  /// Returns how many keys the query of a segment sees.
  __device__ static int visible(const Segment& s) {
    return max(0, min(s.k_length, s.q_offset + 1));
  }
  __device__ static int parts_of(int keys) { return (keys + kPartKeys - 1) / kPartKeys; }
  template <int kHeadDim>
  __device__ float* part(int query, int part, int head) const {
    const std::int64_t at = (static_cast<std::int64_t>(query) * most_parts + part) * heads + head;
    return parts + at * (kHeadDim + 2);
  }
};

/// What is summed of a row relative to the maximum.
struct Statistics {
  float maximum;
  float sum;
};
constexpr Statistics kNothing{kNoScore, 0};

/// Returns the factor that makes what is relative to `from` relative to `to`.
__device__ __forceinline__ float rescale(float from, float to, float scale_log2) {
  return from == kNoScore ? 0.0f : fast_exp2((from - to) * scale_log2);
}

/// Writes o and lse of one head, of which this thread has some elements.
template <int kHeadDim>
__device__ __forceinline__ void write_result(const DecodeParams& p, int query, int head, int d,
                                             float value, const Statistics& all) {
  const float inverse = all.sum > 0 ? 1 / all.sum : 0.0f;
  p.o.row(query, head)[d] = __bfloat16_as_ushort(__float2bfloat16_rn(value * inverse));
  if (d != 0) return;
  p.lse[static_cast<std::int64_t>(head) * p.queries + query] =
      all.sum > 0 ? fmaf(all.maximum, p.scale, logf(all.sum)) : kNoScore;
}

/// Turns the scores of a strip into probabilities relative to the new maximum and rescales what was
/// summed so far. Only the first `keys` of the strip exist.
template <int kHeadDim>
__device__ __forceinline__ void softmax_step(float (&s)[2][4], float (&o)[kHeadDim / 8][4],
                                             Statistics (&rows)[2], int keys, float scale_log2,
                                             int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Statistics& row = rows[half];
    float maximum = row.maximum;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + lane % 4 * 2 + i >= keys) s[n][2 * half + i] = kNoScore;
        maximum = fmaxf(maximum, s[n][2 * half + i]);
      }
    }
    maximum = row_max(maximum);  // of at least one key
    const float correction = rescale(row.maximum, maximum, scale_log2);
    row.maximum = maximum;
    row.sum *= correction;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = s[n][2 * half + i];
        score = fast_exp2((score - maximum) * scale_log2);
        row.sum += score;
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      o[n][2 * half] *= correction;
      o[n][2 * half + 1] *= correction;
    }
  }
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 3) decode_attention(const DecodeParams p) {
  begin_chained();
  using Tile = SharedTile<kHeadDim>;
  constexpr std::uint32_t kStripBytes = DecodeTile::strip_bytes(kHeadDim);
  extern __shared__ __align__(1024) unsigned char shared[];
  const int blocks_of_heads = (p.group + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.x) / blocks_of_heads;
  const int first_head = static_cast<int>(blockIdx.x) % blocks_of_heads * kHeads;
  const int heads = min(kHeads, p.group - first_head);  // of this block
  const int head = kv_head * p.group + first_head;
  const int part = static_cast<int>(blockIdx.y);
  const int query = static_cast<int>(blockIdx.z);
  const Segment segment = p.segments.at(query);
  const int visible = DecodeParams::visible(segment);
  const int begin = part * kPartKeys;
  const int keys = min(visible - begin, kPartKeys);  // of this part
  if (keys <= 0 && part > 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  // The q tile is brought by the first warp; each warp brings its own keys and values.
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t ring =
      q_tile + kHeads * Tile::kRowBytes + warp * DecodeTile::ring_bytes(kHeadDim);
  const auto first_key = [&](int strip) { return (strip * kWarps + warp) * kStripKeys; };
  const auto bring_strip = [&](int strip) {
    const int first = first_key(strip);
    if (strip < kStrips && first < keys) {
      const std::uint32_t to = ring + strip % kStages * kStripBytes;
#pragma unroll
      for (int i = 0; i < kStripKeys * Tile::kChunks / 32; ++i) {
        const int row = (i * 32 + lane) / Tile::kChunks;
        const int chunk = (i * 32 + lane) % Tile::kChunks;
        const bool valid = first + row < keys;
        const int at = segment.k_begin + begin + (valid ? first + row : 0);
        const std::uint32_t offset = Tile::offset(row, chunk);
        copy_async_16(to + offset, p.k.row(at, kv_head) + chunk * 8, valid);
        copy_async_16(to + kStripBytes / 2 + offset, p.v.row(at, kv_head) + chunk * 8, valid);
      }
    }
    end_copy_group();  // also of nothing, so that the groups can be counted
  };
  for (int piece = static_cast<int>(threadIdx.x); piece < kHeads * Tile::kChunks;
       piece += kThreads) {
    const int row = piece / Tile::kChunks;
    const int chunk = piece % Tile::kChunks;
    copy_async_16(q_tile + Tile::offset(row, chunk),
                  p.q.row(query, head + (row < heads ? row : 0)) + chunk * 8, row < heads);
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
  for (int strip = 0; strip < kStrips; ++strip) {
    const int left = keys - first_key(strip);
    if (left <= 0) break;
    wait_for_copy_groups<kStages - 2>();
    __syncwarp();  // this strip is there, and no lane reads the one before any more
    bring_strip(strip + kStages - 1);
    const std::uint32_t stage = ring + strip % kStages * kStripBytes;
    float s[2][4] = {};
    Tile::template multiply_transposed<2>(s, q, stage + Tile::lane_offset_b(lane));
    softmax_step<kHeadDim>(s, o[0], rows, left, p.scale_log2, lane);
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
  const bool alone = DecodeParams::parts_of(visible) <= 1;
  for (int i = static_cast<int>(threadIdx.x); i < heads * kHeadDim; i += kThreads) {
    const int row = i / kHeadDim;
    const int d = i % kHeadDim;
    Statistics all = kNothing;
    for (int w = 0; w < kWarps; ++w) all.maximum = fmaxf(all.maximum, statistics[w][row].maximum);
    float value = 0;
    for (int w = 0; w < kWarps; ++w) {
      const Statistics& of = statistics[w][row];
      const float factor = rescale(of.maximum, all.maximum, p.scale_log2);
      all.sum = fmaf(of.sum, factor, all.sum);
      value = fmaf(results[(w * kHeads + row) * kHeadDim + d], factor, value);
    }
    if (alone) {
      write_result<kHeadDim>(p, query, head + row, d, value, all);
    } else {
      float* const to = p.part<kHeadDim>(query, part, head + row);
      to[d] = value;
      if (d == 0) {
        to[kHeadDim] = all.maximum;
        to[kHeadDim + 1] = all.sum;
      }
    }
  }
}

/// Joins the parts of queries that have several: a block has one head of one query, and each of its
/// warps every fourth part.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) join_parts(const DecodeParams p) {
  begin_chained();
  const int head = static_cast<int>(blockIdx.x);
  const int query = static_cast<int>(blockIdx.z);
  const int parts = DecodeParams::parts_of(DecodeParams::visible(p.segments.at(query)));
  if (parts <= 1) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  constexpr int kPerLane = kHeadDim / 32;
  float sums[kPerLane] = {};
  Statistics own = kNothing;
  for (int part = warp; part < parts; part += kWarps) {
    const float* const from = p.part<kHeadDim>(query, part, head);
    const Statistics next{from[kHeadDim], from[kHeadDim + 1]};
    const float maximum = fmaxf(own.maximum, next.maximum);
    const float old_factor = rescale(own.maximum, maximum, p.scale_log2);
    const float new_factor = rescale(next.maximum, maximum, p.scale_log2);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      sums[i] = fmaf(from[i * 32 + lane], new_factor, sums[i] * old_factor);
    }
    own = {maximum, fmaf(next.sum, new_factor, own.sum * old_factor)};
  }
  __shared__ float results[kWarps][kHeadDim];
  __shared__ Statistics statistics[kWarps];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) results[warp][i * 32 + lane] = sums[i];
  if (lane == 0) statistics[warp] = own;
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < kHeadDim; d += kThreads) {
    Statistics all = kNothing;
    for (const Statistics& of : statistics) all.maximum = fmaxf(all.maximum, of.maximum);
    float value = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float factor = rescale(statistics[w].maximum, all.maximum, p.scale_log2);
      all.sum = fmaf(statistics[w].sum, factor, all.sum);
      value = fmaf(results[w][d], factor, value);
    }
    write_result<kHeadDim>(p, query, head, d, value, all);
  }
}

template <int kHeadDim>
void launch_decode(cudaStream_t stream, const AttentionForward& op) {
  const auto heads = static_cast<unsigned>(op.q.shape[1]);
  const auto kv_heads = static_cast<unsigned>(op.k.shape[1]);
  const unsigned group = heads / kv_heads;
  const auto queries = static_cast<unsigned>(op.q.shape[0]);
  const auto parts = static_cast<unsigned>(op.parts.shape[1]);
  const DecodeParams params{
      .segments = make_segments(op.segments, op.q.shape[0]),
      .q = head_rows<const std::uint16_t>(op.q),
      .k = head_rows<const std::uint16_t>(op.k),
      .v = head_rows<const std::uint16_t>(op.v),
      .o = head_rows<std::uint16_t>(op.o),
      .lse = op.lse.as<float>(),
      .parts = op.parts.as<float>(),
      .queries = static_cast<int>(queries),
      .heads = static_cast<int>(heads),
      .group = static_cast<int>(group),
      .most_parts = static_cast<int>(parts),
      .scale = static_cast<float>(op.scale),
      .scale_log2 = static_cast<float>(op.scale * std::numbers::log2e),
  };
  launch({.name = AttentionForward::kName,
          .stream = stream,
          .grid = dim3(kv_heads * ((group + kHeads - 1) / kHeads), parts, queries),
          .block = kThreads,
          .shared_bytes = DecodeTile::shared_bytes(kHeadDim),
          .chained = true},
         decode_attention<kHeadDim>, params);
  if (parts <= 1) return;
  launch({.name = AttentionForward::kName,
          .stream = stream,
          .grid = dim3(heads, 1, queries),
          .block = kThreads,
          .chained = true},
         join_parts<kHeadDim>, params);
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
