// This file computes the backward of attention for compute capability 9.0, in bf16 with head dims
// 64 and 128. attention.cu launches it for segments that attend to themselves; it turns dq and dk
// back itself if the operator has a rotation. Without dq_sum the result has the same bits every
// time.
//
// Gradients of hopper_forward.cu, for sm_90a: with P = exp(scale * q k^T - lse), delta = rowsum(d_o
// * o), dS = P * (d_o v^T - delta): dv = P^T d_o, dk = scale * dS^T q, dq = scale * dS k; dk and dv
// sum over the query heads of a kv head. Shapes and dtypes as there; delta [H, Nq] f32 is scratch.
// With a window both walks leave out the blocks that it hides from the whole tile.
//
// Two kernels besides delta, neither of which needs an atomic, so the result is the same bit by bit
// every time. In both a producer warp copies tiles by TMA, and two warpgroups own 64 rows of the
// result each:
//
// - dk, dv: rows are keys. A block walks over the queries that see its keys, head by head of the
//   group. It computes the transposes k q^T and v d_o^T, whose accumulators are, once packed,
//   operands of the products with d_o and q: nothing is written to shared memory.
// - dq: rows are queries; a block walks over keys.
//
// Scores are computed twice (7 products instead of 5); what that buys is determinism without a
// queue, and no accumulators of dq in device memory. A warpgroup always has the next product under
// way while it computes P or dS.
//
// With AttentionBackward::dq_sum the kernel of dk and dv also adds its share of dq there (5
// products), in no fixed order: dS goes through shared memory once, as operand of dS k, and the
// sums of 64 queries are added to device memory by the copy engine.
//
// Numerics: as flash_backward.cu; with a rotation dq and dk are turned back in f32 before they are
// rounded.
//
// Measured (attention_bench, one H200, 2026-11-21), 32 heads, TFLOP/s of 5 products, deterministic
// / adding dq (cuDNN in the same run): head dim 128 at 2k, 4k, 8k, 16k tokens a row 438 / 386 (410
// / 429), 489 / 418 (456 / 477), 451 / 463 (452 / 507), 468 / 506 (463 / 519); head dim 64 at 4k
// 362 / 343 (299 / 384). So up to 4k, and at head dim 64, the deterministic way is the faster one.
// Turning dq and dk back adds 7, 3, 2, 1 % at these lengths; Rope takes 8, 5, 2, 1 %.

#include <cuda_runtime.h>

#include <array>
#include <numbers>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/attention/hopper/named_barriers.cuh"
#include "kernels/cuda/common/hopper.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/tensor_map.h"

namespace strata::cuda {

namespace {

constexpr float kLog2E = static_cast<float>(std::numbers::log2e);
constexpr int kConsumers = 2;  ///< warpgroups
constexpr int kConsumerWarps = 4 * kConsumers;
constexpr int kRows = 64 * kConsumers;  ///< rows of the result in a tile
constexpr int kThreads = kWarpgroup * (kConsumers + 1);
// Together the warps take no more registers than the block has at its launch: 168 a thread.
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

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
    constexpr int kHalf = kCount;  // half of the 2 * kCount columns
    float2 cos[2][kHalf / 8];
    float2 sin[2][kHalf / 8];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t angles = std::int64_t{position_[half]} * kHalf + Place::column();
#pragma unroll
      for (int j = 0; j < kHalf / 8; ++j) {
        cos[half][j] = *reinterpret_cast<const float2*>(by.cos + angles + 8 * j);
        sin[half][j] = *reinterpret_cast<const float2*>(by.sin + angles + 8 * j);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kHalf / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& low = d[4 * j + 2 * half + e];
          float& high = d[4 * (j + kHalf / 8) + 2 * half + e];
          const float c = e == 0 ? cos[half][j].x : cos[half][j].y;
          const float s = e == 0 ? sin[half][j].x : sin[half][j].y;
          const float turned = low * c + high * s;
          high = high * c - low * s;
          low = turned;
        }
      }
    }
  }

 private:
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

// --- dk, dv --------------------------------------------------------------------------------------

constexpr int kQueries = 64;                            ///< queries of a stage
constexpr int kDqBoxBytes = kQueries * kPanelRowBytes;  ///< 32 columns of dq

/// The shared memory of the kernel of dk and dv. With kAddDq that kernel also adds its share of dq.
template <int kHeadDim, bool kAddDq>
struct KeyShared {
  using Keys = PanelTile<kHeadDim, kRows>;
  using Queries = PanelTile<kHeadDim, kQueries>;
  using DScores = PanelTile<kQueries, kRows>;  ///< dS^T, whose rows are keys
  static constexpr int kStages = kAddDq ? 2 : 4;
  static constexpr int kDScoresStages = kAddDq ? 2 : 0;
  static constexpr int kDqBytes = kAddDq ? 64 * kHeadDim * 4 : 0;

  unsigned char k[Keys::kBytes];
  unsigned char v[Keys::kBytes];
  unsigned char q[kStages][Queries::kBytes];
  unsigned char d_o[kStages][Queries::kBytes];
  std::array<unsigned char, kDScoresStages * DScores::kBytes> d_scores;
  std::array<unsigned char, kDqBytes> dq;
  alignas(16) float lse[kStages][kQueries];
  float delta[kStages][kQueries];
  std::uint64_t k_full, k_empty, v_full, v_empty;  // once a tile
  std::uint64_t full[kStages], empty[kStages];
  TileQueue tiles;
};

/// A tile of keys walks over the queries from its own first row to the segment's end, for each
/// head.
__device__ int first_query(const SegmentTile& tile) { return tile.segment.q_begin + tile.begin; }
__device__ int end_query(const SegmentTile& tile) {
  return tile.segment.q_begin + tile.segment.q_length;
}

/// Ends the tile's segment after the last query whose window has one of its keys.
__device__ void end_with_window(SegmentTile& tile, int window) {
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

/// Writes dS^T of this warp's 16 keys, packed as operand a, where the next product reads it.
__device__ __forceinline__ void write_d_scores(const Bf16Pair (&d_scores)[kQueries / 16][4],
                                               std::uint32_t tile, int warp_row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = warp_row + lane % 16;
#pragma unroll
  for (int k = 0; k < kQueries / 16; ++k) {
    const int chunk = 2 * k + lane / 16;
    store_matrices(tile + key * kPanelRowBytes + ((chunk ^ (key & 7)) << 4), d_scores[k]);
  }
}

/// Writes a warpgroup's share of dq [64, 2 * kCount] as boxes of 32 columns.
template <int kCount>
__device__ __forceinline__ void write_boxes(const float (&d)[kCount], unsigned char* boxes) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = Place::row() % 64 + Place::lane_row() + 8 * half;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      const int chunk = (j % 4 * 2 + Place::column() / 4) ^ (row & 7);
      *reinterpret_cast<float2*>(boxes + j / 4 * kDqBoxBytes + row * kPanelRowBytes + chunk * 16 +
                                 Place::column() % 4 * 4) =
          make_float2(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
    }
  }
}

template <bool kWindowed, int kHeadDim, bool kAddDq>
__device__ void compute_keys(const BackwardParams& p, KeyShared<kHeadDim, kAddDq>& s) {
  using Shared = KeyShared<kHeadDim, kAddDq>;
  using Keys = typename Shared::Keys;
  using Queries = typename Shared::Queries;
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  const std::uint32_t own_rows = Place::warpgroup() * 64 * kPanelRowBytes;
  const std::uint64_t k = Keys::descriptor(shared_address(s.k) + own_rows);
  const std::uint64_t v = Keys::descriptor(shared_address(s.v) + own_rows);
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) break;
    const int queries = end_query(tile) - first_query(tile);
    const RowsTurnedBack rows(p.rotation, tile.segment.k_begin + tile.begin + Place::row(),
                              tile.rows - Place::row());
    float dk[kHeadDim / 2];
    float dv[kHeadDim / 2];
    clear(dk);
    clear(dv);
    float scored[kQueries / 2];
    const auto issue_scores = [&] {
      barrier(s.full[at.stage()]).wait(at.parity());
      pin_registers(scored);
      fence_products();
      scores<Keys, Queries, kHeadDim>(scored, k,
                                      Queries::descriptor(shared_address(s.q[at.stage()])));
      commit_products();
    };
    int query_head = 0;
    int query = 0;  // the block's first of the head, counted from the tile's own first row
    const auto step = [&](bool last) {
      issue_scores();
      const int stage = at.stage();
      const std::uint64_t q = Queries::descriptor(shared_address(s.q[stage]));
      const std::uint64_t d_o = Queries::descriptor(shared_address(s.d_o[stage]));
      float dp[kQueries / 2];
      pin_registers(dp);
      fence_products();
      scores<Keys, Queries, kHeadDim>(dp, v, d_o);
      commit_products();
      wait_products<1>();
      pin_registers(scored);
      if constexpr (!kAddDq) barrier(s.k_empty).arrive_for_warp(last);
      probabilities(scored, s.lse[stage], p.scale_log2, Place::column());
      const int end = queries - query;
      const int first_key = Place::row() - query;
      const bool hidden = kWindowed && kQueries - 1 - first_key >= p.window;
      if (first_key + 15 > 0 || end < kQueries || hidden) {
        mask_transposed<kWindowed>(scored, first_key + Place::lane_row(), end, p.window,
                                   Place::column());
      }
      Bf16Pair operand[kQueries / 16][4];
      pack_scores(operand, scored);
      pin_registers(dv);
      fence_products();
      weighted_sum<Queries>(dv, operand, d_o);
      commit_products();
      wait_products<1>();
      pin_registers(dp);
      barrier(s.v_empty).arrive_for_warp(last);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 delta =
            *reinterpret_cast<const float2*>(&s.delta[stage][8 * j + Place::column()]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          dp[4 * j + e] = scored[4 * j + e] * (dp[4 * j + e] - (e & 1 ? delta.y : delta.x));
        }
      }
      Bf16Pair d_scores[kQueries / 16][4];
      pack_scores(d_scores, dp);
      float dq[kHeadDim / 4];  // this warpgroup's half of the columns, for 64 queries
      if constexpr (kAddDq) {
        const std::uint32_t tile_of_scores =
            shared_address(s.d_scores.data()) + (at.count & 1) * Shared::DScores::kBytes;
        write_d_scores(d_scores, tile_of_scores, Place::row());
        fence_writes_before_products();
        wait_boxes_read();  // those of the block before; the barrier frees their memory for all
        named_barrier_wait(BackwardBarrier::kScoresWritten, kConsumers * kWarpgroup);
        pin_registers(dq);
        fence_products();
        const std::uint64_t half_of_k = Keys::descriptor(
            shared_address(s.k) + (kHeadDim == 128 ? Place::warpgroup() * Keys::kPanelBytes
                                                   : Place::warpgroup() * kPanelRowBytes / 2));
        transposed_sum<Shared::DScores, Keys>(dq, Shared::DScores::descriptor(tile_of_scores),
                                              half_of_k);
        commit_products();
      }
      pin_registers(dk);
      fence_products();
      weighted_sum<Queries>(dk, d_scores, q);
      commit_products();
      if constexpr (kAddDq) {
        wait_products<1>();
        pin_registers(dq);
        barrier(s.k_empty).arrive_for_warp(last);
        unsigned char* const boxes = s.dq.data() + Place::warpgroup() * (Shared::kDqBytes / 2);
        write_boxes(dq, boxes);
        fence_writes_before_products();
        named_barrier_wait(boxes_written_by(Place::warpgroup()), kWarpgroup);
        const bool leader = Place::thread() % kWarpgroup == 0;
#pragma unroll
        for (int i = 0; i < kHeadDim / 64; ++i) {
          add_box(p.dq_sum, shared_address(boxes) + i * kDqBoxBytes,
                  query_head * kHeadDim + Place::warpgroup() * (kHeadDim / 2) + i * 32,
                  first_query(tile) + query, leader);
        }
        commit_boxes();
      }
      at.advance();
      query += kQueries;
      wait_products<0>();
      pin_registers(dk);
      pin_registers(dv);
      barrier(s.empty[stage]).arrive();  // each lane arrives for the lse and delta that it read
    };
    barrier(s.k_full).wait(tile_at.parity());
    barrier(s.v_full).wait(tile_at.parity());
    tile_at.advance();
    const int end_head = (tile.head + 1) * p.group;
    for (query_head = end_head - p.group; query_head < end_head; ++query_head) {
      for (query = 0; query < queries;) {
        step(query_head + 1 == end_head && query + kQueries >= queries);
      }
    }
    const std::int64_t row = tile.segment.k_begin + tile.begin + Place::row();
    const int head = tile.head;
    const int valid = tile.rows - Place::row();
    multiply_by(dk, p.scale);
    rows.turn(dk, p.rotation);
    store_rows(dk, p.dk.row(row, head), p.dk.stride, valid);
    store_rows(dv, p.dv.row(row, head), p.dv.stride, valid);
  }
  if constexpr (kAddDq) wait_boxes();
}

template <int kHeadDim, bool kAddDq, bool kWindowed>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_key_gradients_kernel(const __grid_constant__ BackwardParams p) {
  using Shared = KeyShared<kHeadDim, kAddDq>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (const auto* full : {&s.k_full, &s.v_full}) barrier(*full).init(1);
    for (const auto* empty : {&s.k_empty, &s.v_empty}) barrier(*empty).init(kConsumerWarps);
    s.tiles.init(32 * kConsumerWarps + 1 + 32);  // consumers, and those that copy
    for (int i = 0; i < Shared::kStages; ++i) {
      barrier(s.full[i]).init(1 + 32);  // one for what TMA copies, a warp for lse and delta
      barrier(s.empty[i]).init(32 * kConsumerWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    release_registers<kProducerRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      find_tiles<kRows>(p.segments, p.order, p.heads, false, p.counter, s.tiles,
                        [&]([[maybe_unused]] SegmentTile& tile) {
                          if constexpr (kWindowed) end_with_window(tile, p.window);
                        });
    }
    if (threadIdx.x == 32) copy_for_keys(p, s);
    if (warp == 2) copy_statistics(p, s);
  } else {
    take_registers<kConsumerRegisters>();
    compute_keys<kWindowed>(p, s);
  }
}

// --- dq ------------------------------------------------------------------------------------------

constexpr int kKeys = 128;  ///< keys of a stage

template <int kHeadDim>
struct QueryShared {
  using Queries = PanelTile<kHeadDim, kRows>;
  using Keys = PanelTile<kHeadDim, kKeys>;
  static constexpr int kStages = 2;

  unsigned char q[Queries::kBytes];
  unsigned char d_o[Queries::kBytes];
  unsigned char k[kStages][Keys::kBytes];
  unsigned char v[kStages][Keys::kBytes];
  std::uint64_t q_full, q_empty, d_o_full, d_o_empty;  // once a tile
  std::uint64_t k_full[kStages], k_empty[kStages];
  std::uint64_t v_full[kStages], v_empty[kStages];
  TileQueue tiles;
};

/// The blocks of keys that a tile of queries walks over: [first, blocks), from the last one on.
template <bool kWindowed>
struct KeyWalk {
  int first = 0;
  int blocks;
  int unmasked;   ///< blocks from this one on have keys that are after some row
  int clear = 0;  ///< blocks before this one have keys that the window hides from some row

  __device__ KeyWalk(const SegmentTile& tile, int window)
      : blocks((tile.begin + tile.rows + kKeys - 1) / kKeys), unmasked((tile.begin + 1) / kKeys) {
    if constexpr (kWindowed) {
      first = max(0, tile.begin + 1 - window) / kKeys;
      clear = (max(0, tile.begin + tile.rows - window) + kKeys - 1) / kKeys;
    }
  }
};

template <bool kWindowed, int kHeadDim>
__device__ void copy_for_queries(const BackwardParams& p, QueryShared<kHeadDim>& s) {
  using Shared = QueryShared<kHeadDim>;
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    constexpr std::uint32_t kBytes = Shared::Queries::kBytes;
    const int row = tile.segment.q_begin + tile.begin;
    const int panel = tile.head * Shared::Queries::kPanels;
    copy_tile<kBytes>(s.q, p.q, row, panel, s.q_full, s.q_empty, tile_at.parity());
    copy_tile<kBytes>(s.d_o, p.d_o, row, panel, s.d_o_full, s.d_o_empty, tile_at.parity());
    tile_at.advance();
    const int key_panel = tile.head / p.group * Shared::Keys::kPanels;
    const KeyWalk<kWindowed> walk(tile, p.window);
    const int blocks = walk.blocks;
    const int first = walk.first;
#pragma unroll 1
    for (int j = blocks - 1; j >= first; --j) {
      tiles.ask_for_next(j + 1 - first, blocks - first);
      const int key_row = tile.segment.k_begin + j * kKeys;
      const int stage = at.stage();
      copy_tile<Shared::Keys::kBytes>(s.k[stage], p.k, key_row, key_panel, s.k_full[stage],
                                      s.k_empty[stage], at.parity());
      copy_tile<Shared::Keys::kBytes>(s.v[stage], p.v, key_row, key_panel, s.v_full[stage],
                                      s.v_empty[stage], at.parity());
      at.advance();
    }
  }
}

template <bool kWindowed, int kHeadDim>
__device__ void compute_queries(const BackwardParams& p, QueryShared<kHeadDim>& s) {
  using Shared = QueryShared<kHeadDim>;
  using Keys = typename Shared::Keys;
  using Queries = typename Shared::Queries;
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  const std::uint32_t own_rows = Place::warpgroup() * 64 * kPanelRowBytes;
  const std::uint64_t q = Queries::descriptor(shared_address(s.q) + own_rows);
  const std::uint64_t d_o = Queries::descriptor(shared_address(s.d_o) + own_rows);
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    const RowsTurnedBack rows(p.rotation, tile.segment.q_begin + tile.begin + Place::row(),
                              tile.rows - Place::row());
    float lse_log2[2];
    float delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(Place::row() + Place::lane_row() + 8 * half, tile.rows - 1);
      const std::int64_t from = tile.head * p.query_rows + tile.segment.q_begin + tile.begin + row;
      lse_log2[half] = p.lse[from] * kLog2E;
      delta[half] = p.delta[from];
    }
    float dq[kHeadDim / 2];
    clear(dq);
    float scored[kKeys / 2];
    const auto issue_scores = [&] {
      barrier(s.k_full[at.stage()]).wait(at.parity());
      pin_registers(scored);
      fence_products();
      scores<Queries, Keys, kHeadDim>(scored, q, Keys::descriptor(shared_address(s.k[at.stage()])));
      commit_products();
    };
    const KeyWalk<kWindowed> walk(tile, p.window);
    const auto step = [&](int j) {
      issue_scores();
      const int stage = at.stage();
      float dp[kKeys / 2];
      barrier(s.v_full[stage]).wait(at.parity());
      pin_registers(dp);
      fence_products();
      scores<Queries, Keys, kHeadDim>(dp, d_o, Keys::descriptor(shared_address(s.v[stage])));
      commit_products();
      wait_products<1>();
      pin_registers(scored);
      barrier(s.q_empty).arrive_for_warp(j == walk.first);
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        scored[i] = fast_exp2(fmaf(scored[i], p.scale_log2, -lse_log2[i / 2 % 2]));
      }
      if (j >= walk.unmasked || j < walk.clear) {
        const int last_key =
            tile.begin + Place::row() + Place::lane_row() - j * kKeys - Place::column();
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
          const int key = i / 4 * 8 + i % 2;
          const int last_of_row = last_key + i / 2 % 2 * 8;
          if (key > last_of_row) scored[i] = 0;
          if (kWindowed && key <= last_of_row - p.window) scored[i] = 0;
        }
      }
      wait_products<0>();
      pin_registers(dp);
      barrier(s.v_empty[stage]).arrive_for_warp();
      barrier(s.d_o_empty).arrive_for_warp(j == walk.first);
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) dp[i] = scored[i] * (dp[i] - delta[i / 2 % 2]);
      Bf16Pair d_scores[kKeys / 16][4];
      pack_scores(d_scores, dp);
      pin_registers(dq);
      fence_products();
      weighted_sum<Keys>(dq, d_scores, Keys::descriptor(shared_address(s.k[stage])));
      commit_products();
      at.advance();
      wait_products<0>();
      pin_registers(dq);
      barrier(s.k_empty[stage]).arrive_for_warp();
    };
    barrier(s.q_full).wait(tile_at.parity());
    barrier(s.d_o_full).wait(tile_at.parity());
    tile_at.advance();
    for (int j = walk.blocks - 1; j >= walk.first; --j) step(j);
    const std::int64_t row = tile.segment.q_begin + tile.begin + Place::row();
    const int head = tile.head;
    const int valid = tile.rows - Place::row();
    multiply_by(dq, p.scale);
    rows.turn(dq, p.rotation);
    store_rows(dq, p.dq.row(row, head), p.dq.stride, valid);
  }
}

template <int kHeadDim, bool kWindowed>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_query_gradients_kernel(const __grid_constant__ BackwardParams p) {
  using Shared = QueryShared<kHeadDim>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (const auto* full : {&s.q_full, &s.d_o_full}) barrier(*full).init(1);
    for (const auto* empty : {&s.q_empty, &s.d_o_empty}) barrier(*empty).init(kConsumerWarps);
    s.tiles.init(32 * kConsumerWarps + 1);  // consumers, and the one thread that copies
    for (int i = 0; i < Shared::kStages; ++i) {
      barrier(s.k_full[i]).init(1);
      barrier(s.v_full[i]).init(1);
      barrier(s.k_empty[i]).init(kConsumerWarps);
      barrier(s.v_empty[i]).init(kConsumerWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    release_registers<kProducerRegisters>();
    if (threadIdx.x < 32) {
      find_tiles<kRows>(p.segments, p.order, p.heads, true, p.counter, s.tiles);
    }
    if (threadIdx.x == 32) copy_for_queries<kWindowed>(p, s);
  } else {
    take_registers<kConsumerRegisters>();
    compute_queries<kWindowed>(p, s);
  }
}

// --- Host side -----------------------------------------------------------------------------------

template <class Shared>
Launch persistent(cudaStream_t stream, const WorkOrder& order) {
  static_assert(sizeof(Shared) <= kMostHopperSharedBytes);
  return {.name = AttentionBackward::kName,
          .stream = stream,
          .grid = static_cast<unsigned>(std::min(order.tiles * order.lanes, multiprocessors())),
          .block = kThreads,
          .shared_bytes = sizeof(Shared)};
}

template <int kHeadDim, bool kWindowed>
void launch_backward(cudaStream_t stream, const AttentionBackward& op, TileCounter* counter) {
  if (op.q.shape[0] == 0) return;
  launch_attention_delta(stream, op);
  const bool add_dq = static_cast<bool>(op.dq_sum);
  BackwardParams params{
      .q = make_head_map(op.q, kQueries),
      .d_o = make_head_map(op.d_o, kQueries),
      .k = make_head_map(op.k, kRows),
      .v = make_head_map(op.v, kRows),
      .dq_sum = add_dq ? make_sum_map(op.dq_sum, kQueries) : CUtensorMap{},
      .segments = make_segments(op.segments, op.q.shape[0]),
      .order = make_key_tile_order(op.segments, op.q, op.k, kRows),
      .counter = counter,
      .heads = narrow<int>(op.k.shape[1]),
      .group = narrow<int>(op.q.shape[1] / op.k.shape[1]),
      .query_rows = op.q.shape[0],
      .lse = op.lse.as<float>(),
      .delta = op.delta.as<float>(),
      .dq = head_rows<std::uint16_t>(op.dq),
      .dk = head_rows<std::uint16_t>(op.dk),
      .dv = head_rows<std::uint16_t>(op.dv),
      .rotation = make_rotation(op.rotation),
      .scale = static_cast<float>(op.scale),
      .scale_log2 = static_cast<float>(op.scale * std::numbers::log2e),
      .window = score_shape(op).window,
  };
  if (add_dq) {
    launch(persistent<KeyShared<kHeadDim, true>>(stream, params.order),
           hopper_key_gradients_kernel<kHeadDim, true, kWindowed>, params);
    return launch_round_dq(stream, op);
  }
  launch(persistent<KeyShared<kHeadDim, false>>(stream, params.order),
         hopper_key_gradients_kernel<kHeadDim, false, kWindowed>, params);
  params.q = make_head_map(op.q, kRows);
  params.d_o = make_head_map(op.d_o, kRows);
  static_assert(kKeys == kRows);  // so the maps of k and v stay
  params.order = make_query_tiles(op.segments, op.q, op.k, kRows).order;
  params.heads = narrow<int>(op.q.shape[1]);
  launch(persistent<QueryShared<kHeadDim>>(stream, params.order),
         hopper_query_gradients_kernel<kHeadDim, kWindowed>, params);
}

}  // namespace

void launch_hopper_backward(cudaStream_t stream, const AttentionBackward& op,
                            TileCounter* counter) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    constexpr bool kWindowed = kScores != ScoreKind::kPlain;
    if (op.q.shape[2] == 64) {
      launch_backward<64, kWindowed>(stream, op, counter);
    } else {
      launch_backward<128, kWindowed>(stream, op, counter);
    }
  });
}

const void* hopper_backward_module() {
  return reinterpret_cast<const void*>(&hopper_query_gradients_kernel<128, false>);
}

}  // namespace strata::cuda
