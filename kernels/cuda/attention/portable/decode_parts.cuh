// This file has what both kernels of single queries over a cache do alike: decode_attention.cu,
// whose keys and values are bf16, and decode_int8_attention.cu. It says which block computes what,
// has a running softmax, and joins warps in their order, and two parts of keys in a cluster.
// decode_join.cuh joins more.

#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <numbers>

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "strata/base/narrow.h"

namespace strata::cuda {

inline constexpr int kDecodeThreads = 32 * DecodeTile::kWarps;
inline constexpr int kPartKeys = static_cast<int>(AttentionForward::kPartKeys);
inline constexpr int kDecodeHeads = DecodeTile::kHeads;
/// Strips of keys of a warp in each part.
inline constexpr int kDecodeStrips = DecodeTile::kPartStrips;
static_assert(kDecodeStrips * DecodeTile::kWarps * DecodeTile::kStripKeys == kPartKeys);
/// Parts of a query that a cluster joins. Clusters of eight start so much later that a second
/// kernel is the faster way (docs/measurements/kernels.md).
inline constexpr int kMostClusterParts = 2;
inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

/// What is summed of a row relative to the maximum.
struct alignas(8) Statistics {
  float maximum;
  float sum;
};
inline constexpr Statistics kNothing{kNoScore, 0};

/// Queries, where results go, and sizes.
struct DecodeTask {
  Segments segments;
  HeadRows<const std::uint16_t> q;
  HeadRows<std::uint16_t> o;
  float* lse;    ///< or null
  float* parts;  ///< [queries, most_parts, heads, D] unscaled sums of v, then Statistics of them,
                 ///< [queries, heads, most_parts]
  int queries;
  int heads;
  int group;  ///< query heads of a kv head
  int most_parts;
  float scale;       ///< of scores in the softmax
  float scale_log2;  ///< scale * log2(e)
  ScoreShape scores;

  /// Returns how many parts the keys have that a query sees.
  __device__ int parts_of_query(int query) const {
    const Segment s = segments.at(query);
    return parts_of(visible(s) - hidden_keys(s));
  }
  /// Returns how many keys of a segment are before its query's window, with which the first part
  /// begins.
  __device__ int hidden_keys(const Segment& s) const {
    return min(visible(s), max(0, s.q_offset + 1 - scores.window));
  }
  /// Turns the dots of a strip into capped scores.
  __device__ __forceinline__ void cap(float (&dots)[4]) const {
#pragma unroll
    for (float& x : dots) x = scores.cap * scores.bent(x);
  }
  /// Returns how many keys the query of a segment sees.
  __device__ static int visible(const Segment& s) {
    return max(0, min(s.k_length, s.q_offset + 1));
  }
  __device__ static int parts_of(int keys) { return (keys + kPartKeys - 1) / kPartKeys; }
  /// Returns what a part of a query's keys adds to a head.
  template <int kHeadDim>
  __device__ float* part(int query, int part, int head) const {
    const std::int64_t at = (static_cast<std::int64_t>(query) * most_parts + part) * heads + head;
    return parts + at * kHeadDim;
  }
  /// Returns what the parts of a query's head are relative to.
  template <int kHeadDim>
  __device__ Statistics* statistics(int query, int head) const {
    const std::int64_t rows = static_cast<std::int64_t>(queries) * heads;
    float* const all = parts + rows * most_parts * kHeadDim;
    const std::int64_t row = static_cast<std::int64_t>(query) * heads + head;
    return reinterpret_cast<Statistics*>(all) + row * most_parts;
  }
};

/// What a block computes: a part of a query's keys, for query heads of one kv head.
struct DecodeBlock {
  Segment segment;
  int query;
  int part;
  int kv_head;
  int head;     ///< the first query head
  int heads;    ///< as many as a block has, or fewer
  int visible;  ///< the query sees none of the segment's keys from this one on
  int parts;    ///< of the keys that it sees
  int begin;    ///< the first key of the part, in the segment
  int keys;     ///< of the part; 0 or less if it has none

  template <ScoreKind kScores>
  __device__ static DecodeBlock of(const DecodeTask& task) {
    const int blocks_of_heads = (task.group + kDecodeHeads - 1) / kDecodeHeads;
    const int first_head = static_cast<int>(blockIdx.x) % blocks_of_heads * kDecodeHeads;
    DecodeBlock b{};
    b.query = static_cast<int>(blockIdx.z);
    b.part = static_cast<int>(blockIdx.y);
    b.segment = task.segments.at(b.query);
    b.kv_head = static_cast<int>(blockIdx.x) / blocks_of_heads;
    b.head = b.kv_head * task.group + first_head;
    b.heads = min(kDecodeHeads, task.group - first_head);
    b.visible = DecodeTask::visible(b.segment);
    const int hidden = kScores == ScoreKind::kPlain ? 0 : task.hidden_keys(b.segment);
    b.parts = DecodeTask::parts_of(b.visible - hidden);
    b.begin = hidden + b.part * kPartKeys;
    b.keys = min(b.visible - b.begin, kPartKeys);
    return b;
  }
  /// Returns false if the block has nothing to do; the first one writes also what sees nothing.
  __device__ bool computes() const { return keys > 0 || part == 0; }
  /// Returns the first key of a warp's strip, in the part.
  __device__ static int first_key(int strip, int warp) {
    return (strip * DecodeTile::kWarps + warp) * DecodeTile::kStripKeys;
  }
};

/// Returns the factor that makes what is relative to `from` relative to `to`.
__device__ __forceinline__ float rescale(float from, float to, float scale_log2) {
  return from == kNoScore ? 0.0f : fast_exp2((from - to) * scale_log2);
}

/// Elements of a head that a thread joins.
inline constexpr int kJoined = 4;

/// Returns the largest of a warp's numbers.
__device__ __forceinline__ float warp_maximum(float of_lane) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    of_lane = fmaxf(of_lane, __shfl_xor_sync(~0u, of_lane, step));
  }
  return of_lane;
}

/// Writes o of kMany elements of a head from `d` on, and lse with the first ones.
template <int kMany>
__device__ __forceinline__ void write_result(const DecodeTask& p, int query, int head, int d,
                                             const float (&value)[kMany], const Statistics& all) {
  const float inverse = all.sum > 0 ? 1 / all.sum : 0.0f;
  float o[kMany];
#pragma unroll
  for (int i = 0; i < kMany; ++i) o[i] = value[i] * inverse;
  store(reinterpret_cast<__nv_bfloat16*>(p.o.row(query, head)) + d, o);
  if (d != 0 || p.lse == nullptr) return;
  p.lse[static_cast<std::int64_t>(head) * p.queries + query] =
      all.sum > 0 ? fmaf(all.maximum, p.scale, logf(all.sum)) : kNoScore;
}

/// Joins what kMany sums, of kPerLane elements each, have of a row, in their order: `values` to
/// `value`, and what they are relative to is returned. One that is kNothing adds nothing.
template <int kMany, int kPerLane>
__device__ __forceinline__ Statistics join_in_order(const Statistics (&statistics)[kMany],
                                                    const float (&values)[kMany][kPerLane],
                                                    float scale_log2, float (&value)[kPerLane]) {
  Statistics all = kNothing;
#pragma unroll
  for (const Statistics& of : statistics) all.maximum = fmaxf(all.maximum, of.maximum);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) value[i] = 0;
#pragma unroll
  for (int from = 0; from < kMany; ++from) {
    const float factor = rescale(statistics[from].maximum, all.maximum, scale_log2);
    all.sum = fmaf(statistics[from].sum, factor, all.sum);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) value[i] = fmaf(values[from][i], factor, value[i]);
  }
  return all;
}

/// A warp's running softmax of the heads 2 (lane % 4) and one more, over keys that lie across
/// lanes.
struct RunningHeads {
  Statistics heads[2] = {kNothing, kNothing};

  /// Turns the scores of a strip (of keys lane / 4 and 8 more) into probabilities relative to the
  /// new maximum and returns in `corrections` by what to multiply what was summed so far. Only the
  /// first `keys` of the strip exist.
  __device__ __forceinline__ void step(float (&s)[4], float (&corrections)[2], int keys,
                                       float scale_log2, int lane) {
    const int key = lane / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (key >= keys) s[i] = kNoScore;
      if (key + 8 >= keys) s[2 + i] = kNoScore;
      Statistics& head = heads[i];
      const float maximum = fmaxf(head.maximum, over_keys_max(fmaxf(s[i], s[2 + i])));
      corrections[i] = rescale(head.maximum, maximum, scale_log2);
      s[i] = fast_exp2((s[i] - maximum) * scale_log2);
      s[2 + i] = fast_exp2((s[2 + i] - maximum) * scale_log2);
      head = {maximum, fmaf(head.sum, corrections[i], s[i] + s[2 + i])};
    }
  }
  __device__ static float over_keys_max(float x) {
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    }
    return x;
  }
  __device__ static float over_keys_sum(float x) {
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
  }
};

/// Joins the parts of a query that the blocks of a cluster have, and writes the result. Each block
/// has `part` [heads of a block, D], spread as DecodeTile has it, and its statistics in shared
/// memory, and takes its share of the elements. The bits are those of join_few_parts.
template <int kHeadDim>
__device__ __forceinline__ void join_cluster(const DecodeTask& p, const DecodeBlock& block,
                                             const float* part,
                                             const Statistics (&statistics)[kDecodeHeads]) {
  const int parts = block.parts;
  cluster_sync();  // parts are there
  for (int i = block.part * kDecodeThreads + static_cast<int>(threadIdx.x);
       i < block.heads * kHeadDim / kJoined; i += parts * kDecodeThreads) {
    const int row = i / (kHeadDim / kJoined);
    const int d = i % (kHeadDim / kJoined) * kJoined;
    const std::uint32_t value_at =
        shared_address(part + row * DecodeTile::result_stride(kHeadDim) + DecodeTile::result_at(d));
    const std::uint32_t statistics_at = shared_address(&statistics[row]);
    float values[kMostClusterParts][kJoined] = {};
    Statistics of[kMostClusterParts] = {kNothing, kNothing};
    static_assert(kMostClusterParts == 2);
#pragma unroll
    for (int block_of = 0; block_of < kMostClusterParts; ++block_of) {
      if (block_of >= parts) break;
      const unsigned rank = static_cast<unsigned>(block_of);
      load_floats_from_block(in_block(value_at, rank), values[block_of]);
      of[block_of] = __builtin_bit_cast(Statistics, load_from_block(in_block(statistics_at, rank)));
    }
    float value[kJoined];
    const Statistics all = join_in_order(of, values, p.scale_log2, value);
    write_result(p, block.query, block.head + row, d, value, all);
  }
  cluster_sync();  // nobody reads this block any more
}

/// Joins what the warps of a block summed, in their order, and writes it: the result, or a part of
/// it. `results` [warps, kDecodeHeads, D], spread as DecodeTile has it, and `statistics` are in
/// shared memory and there; the maxima become the factors of what warps summed, and in a cluster
/// what the first warp summed becomes the part.
template <int kHeadDim>
__device__ __forceinline__ void join_warps(
    const DecodeTask& p, const DecodeBlock& block, float* results,
    Statistics (&statistics)[DecodeTile::kWarps][kDecodeHeads]) {
  __shared__ Statistics joined[kDecodeHeads];
  const int thread = static_cast<int>(threadIdx.x);
  const bool alone = block.parts <= 1;
  const bool clustered = !alone && cluster_blocks() > 1;
  if (thread < block.heads) {
    Statistics all = kNothing;
    for (const auto& warp : statistics) all.maximum = fmaxf(all.maximum, warp[thread].maximum);
    for (auto& warp : statistics) {
      Statistics& of = warp[thread];
      of.maximum = rescale(of.maximum, all.maximum, p.scale_log2);
      all.sum = fmaf(of.sum, of.maximum, all.sum);
    }
    joined[thread] = all;
    if (!alone && !clustered) {
      p.statistics<kHeadDim>(block.query, block.head + thread)[block.part] = all;
    }
  }
  __syncthreads();
  for (int i = thread; i < block.heads * kHeadDim / kJoined; i += kDecodeThreads) {
    const int row = i / (kHeadDim / kJoined);
    const int d = i % (kHeadDim / kJoined) * kJoined;
    const auto result = [&](int warp) {
      return results + (warp * kDecodeHeads + row) * DecodeTile::result_stride(kHeadDim) +
             DecodeTile::result_at(d);
    };
    float value[kJoined] = {};
#pragma unroll
    for (int w = 0; w < DecodeTile::kWarps; ++w) {
      const float factor = statistics[w][row].maximum;
      float of_warp[kJoined];
      load(result(w), of_warp);
#pragma unroll
      for (int j = 0; j < kJoined; ++j) value[j] = fmaf(of_warp[j], factor, value[j]);
    }
    if (alone) {
      write_result(p, block.query, block.head + row, d, value, joined[row]);
    } else if (clustered) {
      store(result(0), value);
    } else {
      store(p.part<kHeadDim>(block.query, block.part, block.head + row) + d, value);
    }
  }
  if (clustered) join_cluster<kHeadDim>(p, block, results, joined);
}

/// Returns how many blocks of a kernel with rings of so many stages live on a multiprocessor.
template <class Tile>
constexpr int decode_blocks(int head_dim, int stages) {
  return stages == Tile::few_stages(head_dim) ? Tile::blocks(head_dim) : 1;
}

/// Returns the task of an operator on single queries; `O` is AttentionForward or AttendInt8Kv.
template <class O>
DecodeTask decode_task(const O& op, const ConstTensorView& segments, std::int64_t kv_heads) {
  return {.segments = make_segments({.table = segments}, op.q.shape[0]),
          .q = head_rows<const std::uint16_t>(op.q),
          .o = head_rows<std::uint16_t>(op.o),
          .lse = nullptr,
          .parts = op.parts.template as<float>(),
          .queries = narrow<int>(op.q.shape[0]),
          .heads = narrow<int>(op.q.shape[1]),
          .group = narrow<int>(op.q.shape[1] / kv_heads),
          .most_parts = narrow<int>(op.parts.shape[1]),
          .scale = static_cast<float>(softmax_scale(op)),
          .scale_log2 = static_cast<float>(softmax_scale(op) * std::numbers::log2e),
          .scores = score_shape(op)};
}

/// Returns how many blocks have the parts of a kv head.
[[nodiscard]] inline int blocks_of_heads(const DecodeTask& task) {
  return (task.group + kDecodeHeads - 1) / kDecodeHeads;
}

/// Returns how many blocks a task has.
[[nodiscard]] inline std::int64_t blocks_of(const DecodeTask& task) {
  return std::int64_t{task.heads / task.group * blocks_of_heads(task)} * task.most_parts *
         task.queries;
}

}  // namespace strata::cuda
