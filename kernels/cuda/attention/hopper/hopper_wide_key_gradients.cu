// This file computes dk and dv for hopper_backward.cu with head dim 256.
//
// Tiles have 64 keys, and each warpgroup has one of the results: its registers hold either dk or
// dv. The warpgroup of dv computes P and hands it to that of dk through shared memory, in f32, so
// that nothing is computed twice (docs/decisions/0049).

#include <cuda_runtime.h>

#include "kernels/cuda/attention/hopper/hopper_backward.cuh"
#include "kernels/cuda/attention/hopper/named_barriers.cuh"

namespace strata::cuda::hopper_backward {

namespace {

struct WideKeyShared {
  static constexpr int kHeadDim = 256;
  static constexpr int kTileKeys = kWideTileKeys;
  using Keys = PanelTile<kHeadDim, kTileKeys>;
  using Queries = PanelTile<kHeadDim, kQueries>;
  static constexpr int kStages = 2;

  unsigned char k[Keys::kBytes];
  unsigned char v[Keys::kBytes];
  unsigned char q[kStages][Queries::kBytes];
  unsigned char d_o[kStages][Queries::kBytes];
  /// P in f32, as a thread holds it; the same thread of the other warpgroup reads it.
  float4 probabilities[kQueries / 8][kWarpgroup];
  alignas(16) float lse[kStages][kQueries];
  float delta[kStages][kQueries];
  std::uint64_t k_full, k_empty, v_full, v_empty;  // once a tile
  std::uint64_t full[kStages], empty[kStages];
  TileQueue tiles;
};

/// Both warpgroups together: either waits for what the other one did at this barrier.
__device__ __forceinline__ void wait_for(WideBackwardBarrier name) {
  named_barrier_wait(name, kConsumers * kWarpgroup);
}
__device__ __forceinline__ void arrive_at(WideBackwardBarrier name) {
  named_barrier_arrive(name, kConsumers * kWarpgroup);
}

/// The warpgroup of dv.
template <bool kWindowed>
__device__ __forceinline__ void compute_wide_values(const BackwardParams& p, WideKeyShared& s) {
  using Shared = WideKeyShared;
  using Keys = Shared::Keys;
  using Queries = Shared::Queries;
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  const std::uint64_t k = Keys::descriptor(shared_address(s.k));
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    const int queries = end_query(tile) - first_query(tile);
    float dv[Shared::kHeadDim / 2];
    clear(dv);
    const auto step = [&](int query) {
      const int stage = at.stage();
      barrier(s.full[stage]).wait(at.parity());
      float scored[kQueries / 2];
      pin_registers(scored);
      fence_products();
      scores<Keys, Queries, Shared::kHeadDim>(scored, k,
                                              Queries::descriptor(shared_address(s.q[stage])));
      commit_products();
      wait_products<0>();
      pin_registers(scored);
      probabilities(scored, s.lse[stage], p.scale_log2, Place::column());
      const int end = queries - query;
      const int first_key = Place::row() - query;
      const bool hidden = kWindowed && kQueries - 1 - first_key >= p.window;
      if (first_key + 15 > 0 || end < kQueries || hidden) {
        mask_transposed<kWindowed>(scored, first_key + Place::lane_row(), end, p.window,
                                   Place::column());
      }
      wait_for(WideBackwardBarrier::kProbabilitiesRead);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        s.probabilities[j][Place::thread()] =
            make_float4(scored[4 * j], scored[4 * j + 1], scored[4 * j + 2], scored[4 * j + 3]);
      }
      arrive_at(WideBackwardBarrier::kProbabilitiesWritten);
      Bf16Pair operand[kQueries / 16][4];
      pack_scores(operand, scored);
      pin_registers(dv);
      fence_products();
      weighted_sum<Queries>(dv, operand, Queries::descriptor(shared_address(s.d_o[stage])));
      commit_products();
      at.advance();
      wait_products<0>();
      pin_registers(dv);
      barrier(s.empty[stage]).arrive();
    };
    barrier(s.k_full).wait(tile_at.parity());
    tile_at.advance();
    for (int head = 0; head < p.group; ++head) {
      for (int query = 0; query < queries; query += kQueries) step(query);
    }
    barrier(s.k_empty).arrive_for_warp();
    store_rows(dv, p.dv.row(tile.segment.k_begin + tile.begin + Place::row(), tile.head),
               p.dv.stride, tile.rows - Place::row());
  }
}

/// The warpgroup of dk, whose rows are those of the other one.
__device__ __forceinline__ void compute_wide_keys(const BackwardParams& p, WideKeyShared& s) {
  using Shared = WideKeyShared;
  using Keys = Shared::Keys;
  using Queries = Shared::Queries;
  TileReader tiles(s.tiles);
  RingPosition<1> tile_at;
  RingPosition<Shared::kStages> at;
  const std::uint64_t v = Keys::descriptor(shared_address(s.v));
  const auto own_row = [] { return Place::row() - Shared::kTileKeys; };
  arrive_at(WideBackwardBarrier::kProbabilitiesRead);
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    const int queries = end_query(tile) - first_query(tile);
    const RowsTurnedBack rows(p.rotation, tile.segment.k_begin + tile.begin + own_row(),
                              tile.rows - own_row());
    float dk[Shared::kHeadDim / 2];
    clear(dk);
    const auto step = [&] {
      const int stage = at.stage();
      barrier(s.full[stage]).wait(at.parity());
      float dp[kQueries / 2];
      pin_registers(dp);
      fence_products();
      scores<Keys, Queries, Shared::kHeadDim>(dp, v,
                                              Queries::descriptor(shared_address(s.d_o[stage])));
      commit_products();
      wait_products<0>();
      pin_registers(dp);
      wait_for(WideBackwardBarrier::kProbabilitiesWritten);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const float2 delta =
            *reinterpret_cast<const float2*>(&s.delta[stage][8 * j + Place::column()]);
        const float4 of_queries = s.probabilities[j][Place::thread() - kWarpgroup];
        dp[4 * j] = of_queries.x * (dp[4 * j] - delta.x);
        dp[4 * j + 1] = of_queries.y * (dp[4 * j + 1] - delta.y);
        dp[4 * j + 2] = of_queries.z * (dp[4 * j + 2] - delta.x);
        dp[4 * j + 3] = of_queries.w * (dp[4 * j + 3] - delta.y);
      }
      arrive_at(WideBackwardBarrier::kProbabilitiesRead);
      Bf16Pair operand[kQueries / 16][4];
      pack_scores(operand, dp);
      pin_registers(dk);
      fence_products();
      weighted_sum<Queries>(dk, operand, Queries::descriptor(shared_address(s.q[stage])));
      commit_products();
      at.advance();
      wait_products<0>();
      pin_registers(dk);
      barrier(s.empty[stage]).arrive();
    };
    barrier(s.v_full).wait(tile_at.parity());
    tile_at.advance();
    for (int head = 0; head < p.group; ++head) {
      for (int query = 0; query < queries; query += kQueries) step();
    }
    barrier(s.v_empty).arrive_for_warp();
    multiply_by(dk, p.scale);
    rows.turn(dk, p.rotation);
    store_rows(dk, p.dk.row(tile.segment.k_begin + tile.begin + own_row(), tile.head), p.dk.stride,
               tile.rows - own_row());
  }
}

template <bool kWindowed>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_wide_key_gradients_kernel(const __grid_constant__ BackwardParams p) {
  using Shared = WideKeyShared;
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (const auto* full : {&s.k_full, &s.v_full}) barrier(*full).init(1);
    // Only the warpgroup of dv reads keys, and only that of dk reads values.
    for (const auto* empty : {&s.k_empty, &s.v_empty}) barrier(*empty).init(kConsumerWarps / 2);
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
      find_tiles<Shared::kTileKeys>(p.segments, p.order, p.heads, false, p.counter, s.tiles,
                                    [&]([[maybe_unused]] SegmentTile& tile) {
                                      if constexpr (kWindowed) end_with_window(tile, p.window);
                                    });
    }
    if (threadIdx.x == 32) copy_for_keys(p, s);
    if (warp == 2) copy_statistics(p, s);
  } else {
    take_registers<kConsumerRegisters>();
    if (Place::warpgroup() == 0) {
      compute_wide_values<kWindowed>(p, s);
    } else {
      compute_wide_keys(p, s);
    }
  }
}

}  // namespace

void launch_wide_key_gradients(cudaStream_t stream, const BackwardParams& params, bool windowed) {
  launch(
      persistent<WideKeyShared>(stream, params.order),
      windowed ? hopper_wide_key_gradients_kernel<true> : hopper_wide_key_gradients_kernel<false>,
      params);
}

}  // namespace strata::cuda::hopper_backward
