// This file has what the sm_90a kernels of attention's backward share: arguments, tiles of queries
// on their way, probabilities and masks, and rows that are turned back. hopper_backward.cu says
// what is computed, and launches all of them.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <numbers>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"
#include "kernels/cuda/common/hopper_copies.cuh"
#include "kernels/cuda/common/hopper_products.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/tensor_map.h"

namespace strata::cuda::hopper_backward {

inline constexpr float kLog2E = static_cast<float>(std::numbers::log2e);
inline constexpr int kConsumers = 2;  ///< warpgroups
inline constexpr int kConsumerWarps = 4 * kConsumers;
inline constexpr int kRows = 64 * kConsumers;  ///< rows of the result in a tile
inline constexpr int kThreads = kWarpgroup * (kConsumers + 1);
// Together the warps take no more registers than the block has at its launch: 168 a thread.
inline constexpr int kProducerRegisters = 24;
inline constexpr int kConsumerRegisters = 240;

struct BackwardParams {
  CUtensorMap q, d_o, k, v;
  CUtensorMap dq_sum;  ///< the map of dq_sum, if dq is added there
  Segments segments;
  WorkOrder order;
  TileCounter* counter;
  int heads;  ///< the heads of the result: query heads or kv heads
  int group;  ///< query heads of a kv head
  std::int64_t query_rows;
  const float* lse;
  const float* delta;
  HeadRows<std::uint16_t> dq, dk, dv;
  Rotation rotation;
  float scale;
  float scale_log2;  ///< scale * log2(e)
  int window;        ///< see ScoreShape
};

template <int kCount>
__device__ __forceinline__ void clear(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = 0;
}
template <int kCount>
__device__ __forceinline__ void multiply_by(float (&x)[kCount], float factor) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] *= factor;
}

/// Turns back, by their angles, the two rows of dq or dk that a lane has in an accumulator. A lane
/// holds both numbers of a pair.
class RowsTurnedBack {
 public:
  /// Reads the rows' positions, long before they are needed. `row` is the warp's first, and `valid`
  /// counts the rows from there that the tile has; after them the tile's last stands in.
  __device__ RowsTurnedBack(const Rotation& by, std::int64_t row, int valid) {
    if (by.positions == nullptr) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      position_[half] = by.positions[row + min(Place::lane_row() + 8 * half, valid - 1)];
    }
  }
  template <int kCount>
  __device__ __forceinline__ void turn(float (&d)[kCount], const Rotation& by) const {
    if (by.positions == nullptr) return;
    constexpr int kHalf = kCount;                         // half of the 2 * kCount columns
    constexpr int kAtOnce = kHalf <= 64 ? kHalf / 8 : 4;  // of the kHalf / 8 angles that a row has
#pragma unroll
    for (int first = 0; first < kHalf / 8; first += kAtOnce) turn_some<kAtOnce>(d, by, first);
  }

 private:
  /// Turns columns 8 * first .. 8 * (first + kAngles) - 1 with those of the other half.
  template <int kAngles, int kCount>
  __device__ __forceinline__ void turn_some(float (&d)[kCount], const Rotation& by,
                                            int first) const {
    constexpr int kHalf = kCount;
    float2 cos[2][kAngles];
    float2 sin[2][kAngles];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t angles =
          std::int64_t{position_[half]} * kHalf + 8 * first + Place::column();
#pragma unroll
      for (int j = 0; j < kAngles; ++j) {
        cos[half][j] = *reinterpret_cast<const float2*>(by.cos + angles + 8 * j);
        sin[half][j] = *reinterpret_cast<const float2*>(by.sin + angles + 8 * j);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kAngles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& low = d[4 * (first + j) + 2 * half + e];
          float& high = d[4 * (first + j + kHalf / 8) + 2 * half + e];
          const float c = e == 0 ? cos[half][j].x : cos[half][j].y;
          const float s = e == 0 ? sin[half][j].x : sin[half][j].y;
          const float turned = low * c + high * s;
          high = high * c - low * s;
          low = turned;
        }
      }
    }
  }

  int position_[2] = {0, 0};
};

/// Copies a tile into shared memory once `empty` says that it is free.
template <std::uint32_t kBytes>
__device__ __forceinline__ void copy_tile(unsigned char* to, const CUtensorMap& map, int row,
                                          int panel, const std::uint64_t& full,
                                          const std::uint64_t& empty, std::uint32_t parity) {
  barrier(empty).wait(parity ^ 1);
  barrier(full).arrive_and_expect(kBytes);
  copy_box(shared_address(to), map, row, panel, barrier(full));
}

// --- Queries on their way past a tile of keys
// -----------------------------------------------------

inline constexpr int kQueries = 64;  ///< queries of a stage

/// A tile of keys walks over the queries from its own first row to the segment's end, for each
/// head.
__device__ inline int first_query(const SegmentTile& tile) {
  return tile.segment.q_begin + tile.begin;
}
__device__ inline int end_query(const SegmentTile& tile) {
  return tile.segment.q_begin + tile.segment.q_length;
}

/// Ends the tile's segment after the last query whose window has one of its keys.
__device__ inline void end_with_window(SegmentTile& tile, int window) {
  tile.segment.q_length = min(tile.segment.q_length, tile.begin + tile.rows - 1 + window);
}

template <class Shared>
__device__ void copy_for_keys(const BackwardParams& p, Shared& s) {
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    const int row = tile.segment.k_begin + tile.begin;
    const int panel = tile.head * Shared::Keys::kPanels;
    copy_tile<Shared::Keys::kBytes>(s.k, p.k, row, panel, s.k_full, s.k_empty, tile_at.parity());
    copy_tile<Shared::Keys::kBytes>(s.v, p.v, row, panel, s.v_full, s.v_empty, tile_at.parity());
    tile_at.advance();
    const int all = p.group * ((end_query(tile) - first_query(tile) + kQueries - 1) / kQueries);
    int left = all;
    // These loops read the tile anew each time, since the warp has few registers.
#pragma unroll 1
    for (int head = 0; head < p.group; ++head) {
      const int query_panel = (tile.head * p.group + head) * Shared::Queries::kPanels;
#pragma unroll 1
      for (int query = first_query(tile); query < end_query(tile); query += kQueries) {
        tiles.ask_for_next(left--, all);
        const int stage = at.stage();
        const Barrier full = barrier(s.full[stage]);
        barrier(s.empty[stage]).wait(at.parity() ^ 1);
        full.arrive_and_expect(2 * Shared::Queries::kBytes);
        copy_box(shared_address(s.q[stage]), p.q, query, query_panel, full);
        copy_box(shared_address(s.d_o[stage]), p.d_o, query, query_panel, full);
        at.advance();
      }
    }
  }
}

/// Copies lse and delta of the same queries. They begin anywhere, so TMA cannot copy them.
template <class Shared>
__device__ void copy_statistics(const BackwardParams& p, Shared& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TileReader tiles(s.tiles);
  RingPosition<Shared::kStages> at;
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
#pragma unroll 1
    for (int head = 0; head < p.group; ++head) {
      const std::int64_t of_head = (tile.head * p.group + head) * p.query_rows;
#pragma unroll 1
      for (int query = first_query(tile); query < end_query(tile); query += kQueries) {
        barrier(s.empty[at.stage()]).wait(at.parity() ^ 1);
#pragma unroll
        for (int r = lane; r < kQueries; r += 32) {
          // Rows after the segment's end are masked; they only must not be outside the tensor.
          const std::int64_t from = of_head + min(query + r, static_cast<int>(p.query_rows) - 1);
          s.lse[at.stage()][r] = p.lse[from];
          s.delta[at.stage()][r] = p.delta[from];
        }
        barrier(s.full[at.stage()]).arrive();  // each lane arrives for what it wrote
        at.advance();
      }
    }
  }
}

/// Computes P^T from scores of 64 keys and kQueries queries, in place. mask_transposed then sets to
/// 0 the keys after a query or before its window, and queries after the walk's end. Its `row` is
/// this lane's first key and its `end` the walk's end, both counted from the block's first query.
template <int kCount>
__device__ __forceinline__ void probabilities(float (&s)[kCount], const float* lse,
                                              float scale_log2, int column) {
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    const float2 of_queries = *reinterpret_cast<const float2*>(lse + 8 * j + column);
    const float base[2] = {of_queries.x * kLog2E, of_queries.y * kLog2E};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[4 * j + e] = fast_exp2(fmaf(s[4 * j + e], scale_log2, -base[e & 1]));
    }
  }
}
template <bool kWindowed, int kCount>
__device__ __forceinline__ void mask_transposed(float (&s)[kCount], int row, int end, int window,
                                                int column) {
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int query = 8 * j + column + (e & 1);
      const int key = row + (e >> 1) * 8;
      if (query < key || query >= end) s[4 * j + e] = 0;
      if (kWindowed && query - key >= window) s[4 * j + e] = 0;
    }
  }
}

// --- Host side -----------------------------------------------------------------------------------

/// Returns how a persistent kernel with this shared memory is launched.
template <class Shared>
Launch persistent(cudaStream_t stream, const WorkOrder& order) {
  static_assert(sizeof(Shared) <= kMostHopperSharedBytes);
  return {.name = AttentionBackward::kName,
          .stream = stream,
          .grid = static_cast<unsigned>(std::min(order.tiles * order.lanes, multiprocessors())),
          .block = kThreads,
          .shared_bytes = sizeof(Shared)};
}

/// Launch the kernels of dk and dv. `params` has the order of tiles of kRows keys, or of the narrow
/// ones of head dim 256.
void launch_key_gradients(cudaStream_t stream, const BackwardParams& params, int head_dim,
                          bool add_dq, bool windowed);
inline constexpr int kWideTileKeys = 64;
void launch_wide_key_gradients(cudaStream_t stream, const BackwardParams& params, bool windowed);

}  // namespace strata::cuda::hopper_backward
