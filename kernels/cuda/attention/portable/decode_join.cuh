// This file joins parts of keys of single queries, and launches what computes them, for both
// kernels that include decode_parts.cuh. Parts of a query are joined in their order: up to 16 one
// after the other, of more each warp sums every 16th, and these sums are added in their order. So
// the bits are the same whatever joins them: a cluster (two parts), a warp (up to eight), or a
// block.
//
// A join starts when the last part is there and is waited for, so what counts is how soon its
// blocks start and how many loads follow each other. They take 40 registers, so that the first one
// or two blocks that end leave room for one, and spill none: what is in no cache costs a
// microsecond, be it spilled registers or unrolled code.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda {

/// Parts of a query that are summed one after the other: of more, as many sums of every such part.
inline constexpr int kPartSums = 16;
/// Parts that one warp sums by itself.
inline constexpr int kFewParts = 8;
/// Elements of a head that a lane sums, at most: registers are few.
inline constexpr int kMostSummed = 4;

/// Sums every kStep-th part of a head of a query, from `first` on, in their order: a lane has
/// kPerLane elements, from `element` on; kAhead parts are under way. With kStep 1 there are kAhead
/// parts at most. Returns what `value` is relative to. Called by whole warps.
template <int kHeadDim, int kStep, int kAhead, int kPerLane>
__device__ __forceinline__ Statistics sum_parts(const DecodeTask& p, int query, int head, int parts,
                                                int first, int element, float (&value)[kPerLane]) {
  constexpr int kChunk = 32 * kStep;  // of parts, one for each lane
  static_assert(32 % kAhead == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Statistics* const statistics = p.statistics<kHeadDim>(query, head);
  const float* const values = p.part<kHeadDim>(query, 0, head) + element;
  const int stride = p.heads * kHeadDim;  // of parts
  const auto of_lane = [&](int from) {
    const int part = from + lane * kStep;
    Statistics of_part = kNothing;
    if (part < parts) of_part = statistics[part];
    return of_part;
  };
  Vector<float, kPerLane> ahead[kAhead];
  const auto bring = [&](int from) {
    const float* at = values + static_cast<std::int64_t>(from) * stride;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (from + i * kStep < parts) ahead[i] = load_raw<float, kPerLane>(at);
      at += kStep * stride;
    }
  };
  Statistics all = kNothing;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) value[i] = 0;
  // What is ahead, from the lane `from_lane` of what lanes have on.
  const auto add = [&](int from, const Statistics& of_lanes, float factor, int from_lane) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float of_part = __shfl_sync(~0u, factor, from_lane + i);
      const float sum = __shfl_sync(~0u, of_lanes.sum, from_lane + i);
      if (from + i * kStep < parts) {
        all.sum = fmaf(sum, of_part, all.sum);
#pragma unroll
        for (int e = 0; e < kPerLane; ++e) value[e] = fmaf(ahead[i].values[e], of_part, value[e]);
      }
    }
  };
  Statistics next = of_lane(first);
  bring(first);
  float maximum = next.maximum;
  if constexpr (kStep == 1) {
    all.maximum = warp_maximum(maximum);
    add(first, next, rescale(next.maximum, all.maximum, p.scale_log2), 0);
  } else {
#pragma unroll 1
    for (int from = first + kChunk; from < parts; from += kChunk) {
      maximum = fmaxf(maximum, of_lane(from).maximum);
    }
    all.maximum = warp_maximum(maximum);
#pragma unroll 1
    for (int chunk = first; chunk < parts; chunk += kChunk) {
      const float factor = rescale(next.maximum, all.maximum, p.scale_log2);
#pragma unroll 1
      for (int i = 0; i < 32 && chunk + i * kStep < parts; i += kAhead) {
        add(chunk + i * kStep, next, factor, i);
        bring(chunk + (i + kAhead) * kStep);
      }
      next = of_lane(chunk + kChunk);
    }
  }
  return all;
}

/// Joins the parts of queries that have kAhead at most, in their order: a warp has 32 * kPerLane
/// elements of one head of one query, and all of its parts under way.
template <int kHeadDim, int kAhead, int kPerLane>
__global__ void __launch_bounds__(kDecodeThreads, 12) join_few_parts(const DecodeTask p) {
  constexpr int kSlices = kHeadDim / (32 * kPerLane);  // of a head
  let_next_start();
  const int slice = static_cast<int>(blockIdx.x * kDecodeThreads + threadIdx.x) / 32;
  const int head = slice / kSlices;
  const int element = (slice % kSlices * 32 + static_cast<int>(threadIdx.x) % 32) * kPerLane;
  const int query = static_cast<int>(blockIdx.z);
  const int parts = p.parts_of_query(query);
  wait_for_previous();
  if (parts <= 1 || head >= p.heads) return;
  float value[kPerLane];
  const Statistics all = sum_parts<kHeadDim, 1, kAhead>(p, query, head, parts, 0, element, value);
  write_result(p, query, head, element, value, all);
}

/// Joins the parts of queries that may have any number: a block has 32 * kPerLane elements of one
/// head of one query, each of its warps every kPartSums-th part. Then warps are joined in their
/// order. Of kPartSums parts or fewer the bits are those of join_few_parts.
template <int kHeadDim, int kPerLane>
__global__ void __launch_bounds__(32 * kPartSums, 3) join_parts(const DecodeTask p) {
  constexpr int kSlice = 32 * kPerLane;
  constexpr int kSlices = kHeadDim / kSlice;  // of a head
  constexpr int kAhead = 2;                   // of each warp, so 32 of the block
  __shared__ alignas(16) float sums[kPartSums][kSlice];
  __shared__ Statistics statistics[kPartSums];
  let_next_start();
  const int head = static_cast<int>(blockIdx.x) / kSlices;
  const int query = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int element = static_cast<int>(blockIdx.x) % kSlices * kSlice + lane * kPerLane;
  const int parts = p.parts_of_query(query);
  wait_for_previous();
  if (parts <= 1) return;
  float value[kPerLane];
  const Statistics own =
      sum_parts<kHeadDim, kPartSums, kAhead>(p, query, head, parts, warp, element, value);
  store(&sums[warp][lane * kPerLane], value);
  if (lane == 0) statistics[warp] = own;
  __syncthreads();
  if (warp != 0) return;
  Statistics of = kNothing;
  if (lane < kPartSums) of = statistics[lane];
  Statistics all = {warp_maximum(of.maximum), 0};
  const float factor = rescale(of.maximum, all.maximum, p.scale_log2);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) value[i] = 0;
#pragma unroll
  for (int w = 0; w < kPartSums; ++w) {
    if (w >= parts) break;
    const float of_warp = __shfl_sync(~0u, factor, w);
    all.sum = fmaf(__shfl_sync(~0u, of.sum, w), of_warp, all.sum);
    float sum[kPerLane];
    load(&sums[w][lane * kPerLane], sum);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) value[i] = fmaf(sum[i], of_warp, value[i]);
  }
  write_result(p, query, head, element, value, all);
}

/// Launches what joins parts, if a query may have several.
template <int kHeadDim>
void launch_join(std::string_view name, cudaStream_t stream, const DecodeTask& task) {
  if (task.most_parts <= 1) return;
  constexpr int kWarps = DecodeTile::kWarps;
  const auto launch_with = [&](void (*join)(DecodeTask), int blocks, int threads) {
    launch({.name = name,
            .stream = stream,
            .grid = dim3(static_cast<unsigned>(blocks), 1, static_cast<unsigned>(task.queries)),
            .block = threads,
            .chained = true},
           join, task);
  };
  constexpr int kPerLane = std::min(kHeadDim / 32, kMostSummed);
  constexpr int kSlices = kHeadDim / (32 * kPerLane);
  const auto blocks = [](int slices) { return (slices + kWarps - 1) / kWarps; };
  if (task.most_parts <= kWarps) {
    launch_with(join_few_parts<kHeadDim, kWarps, kPerLane>, blocks(task.heads * kSlices),
                kDecodeThreads);
  } else if (task.most_parts <= kFewParts) {
    launch_with(join_few_parts<kHeadDim, kFewParts, 1>, blocks(task.heads * (kHeadDim / 32)),
                kDecodeThreads);
  } else {
    launch_with(join_parts<kHeadDim, kPerLane>, task.heads * kSlices, 32 * kPartSums);
  }
}

/// Launches `kernel`, which takes `params`, for all parts of a task, and what joins these, unless
/// the parts of a query are few enough for a cluster, which joins them itself.
template <int kHeadDim, class Params>
void launch_decode_parts(std::string_view name, cudaStream_t stream, const DecodeTask& task,
                         void (*kernel)(Params), const Params& params, std::size_t shared_bytes) {
  const bool clustered =
      task.most_parts > 1 && task.most_parts <= kMostClusterParts && has_clusters();
  const dim3 cluster(1, clustered ? static_cast<unsigned>(task.most_parts) : 1);
  launch({.name = name,
          .stream = stream,
          .grid = dim3(static_cast<unsigned>(task.heads / task.group * blocks_of_heads(task)),
                       static_cast<unsigned>(task.most_parts), static_cast<unsigned>(task.queries)),
          .block = kDecodeThreads,
          .shared_bytes = shared_bytes,
          .cluster = cluster,
          .chained = true},
         kernel, params);
  if (!clustered) launch_join<kHeadDim>(name, stream, task);
}

/// Returns true if there are so few blocks that each may have a multiprocessor's shared memory, and
/// that holds many stages of `Tile`.
template <class Tile, int kHeadDim>
[[nodiscard]] bool may_have_many_stages(const DecodeTask& task) {
  static const int places = multiprocessors();
  static const bool fits =
      most_shared_bytes() >= Tile::shared_bytes(kHeadDim, Tile::many_stages(kHeadDim));
  return fits && blocks_of(task) <= places;
}

}  // namespace strata::cuda
