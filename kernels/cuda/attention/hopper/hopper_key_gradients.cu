// This file computes dk and dv for hopper_backward.cu with head dims 64 and 128, and with
// AttentionBackward::dq_sum also adds to dq.
//
// Rows are keys. A block walks over the queries that see its keys, head by head of the group. It
// computes the transposes k q^T and v d_o^T, whose accumulators are, once packed, operands of the
// products with d_o and q: nothing is written to shared memory. A warpgroup always has the next
// product under way while it computes P or dS.
//
// With dq_sum, dS goes through shared memory once, as operand of dS k, and the sums of 64 queries
// are added to device memory by the copy engine, in no fixed order.

#include <cuda_runtime.h>

#include <array>

#include "kernels/cuda/attention/hopper/hopper_backward.cuh"
#include "kernels/cuda/attention/hopper/named_barriers.cuh"

namespace strata::cuda::hopper_backward {

namespace {

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

template <int kHeadDim, bool kAddDq, bool kWindowed>
void launch_kernel(cudaStream_t stream, const BackwardParams& params) {
  launch(persistent<KeyShared<kHeadDim, kAddDq>>(stream, params.order),
         hopper_key_gradients_kernel<kHeadDim, kAddDq, kWindowed>, params);
}

template <int kHeadDim, bool kWindowed>
void launch_of(cudaStream_t stream, const BackwardParams& params, bool add_dq) {
  if (add_dq) {
    launch_kernel<kHeadDim, true, kWindowed>(stream, params);
  } else {
    launch_kernel<kHeadDim, false, kWindowed>(stream, params);
  }
}

}  // namespace

void launch_key_gradients(cudaStream_t stream, const BackwardParams& params, int head_dim,
                          bool add_dq, bool windowed) {
  if (head_dim == 64) {
    windowed ? launch_of<64, true>(stream, params, add_dq)
             : launch_of<64, false>(stream, params, add_dq);
  } else {
    windowed ? launch_of<128, true>(stream, params, add_dq)
             : launch_of<128, false>(stream, params, add_dq);
  }
}

}  // namespace strata::cuda::hopper_backward
