// This file computes the backward of attention for compute capability 9.0, in bf16 with head dims
// 64, 128 and 256. attention.cu launches it for segments that attend to themselves; it turns dq and
// dk back itself if the operator has a rotation. Without dq_sum the result has the same bits every
// time.
//
// Gradients of hopper_forward.cu, for sm_90a: with P = exp(scale * q k^T - lse), delta = rowsum(d_o
// * o), dS = P * (d_o v^T - delta): dv = P^T d_o, dk = scale * dS^T q, dq = scale * dS k; dk and dv
// sum over the query heads of a kv head. Shapes and dtypes as there; delta [H, Nq] f32 is scratch.
// With a window both walks leave out the blocks that it hides from the whole tile.
//
// Two kernels besides delta, neither of which needs an atomic, so the result is the same bit by bit
// every time. In both a producer warp copies tiles by TMA to two warpgroups:
//
// - dk, dv: rows are keys (hopper_key_gradients.cu; hopper_wide_key_gradients.cu for head dim 256).
// - dq, here: rows are queries, of which a warpgroup owns 64; a block walks over keys.
//
// Scores are computed twice (7 products instead of 5); what that buys is determinism without a
// queue, and no accumulators of dq in device memory. With AttentionBackward::dq_sum and head dims
// 64 and 128 the kernel of dk and dv also adds its share of dq there (5 products).
//
// Numerics: as flash_backward.cu; with a rotation dq and dk are turned back in f32 before they are
// rounded.
//
// Measured (attention_bench, one H200, 2026-11-21), 32 heads, TFLOP/s of 5 products, deterministic
// / adding dq (cuDNN in the same run): head dim 128 at 2k, 4k, 8k, 16k tokens a row 438 / 386 (410
// / 429), 489 / 418 (456 / 477), 451 / 463 (452 / 507), 468 / 506 (463 / 519); head dim 64 at 4k
// 362 / 343 (299 / 384). So up to 4k, and at head dim 64, the deterministic way is the faster one.
// Turning dq and dk back adds 7, 3, 2, 1 % at these lengths; Rope takes 8, 5, 2, 1 %.
// Head dim 256 with 16 heads at 4k, 2026-11-29: 440, where 128 with 32 heads has 436.

#include <cuda_runtime.h>

#include <numbers>

#include "kernels/cuda/attention/hopper/hopper_backward.cuh"

namespace strata::cuda {

namespace hopper_backward {

namespace {

template <int kHeadDim>
struct QueryShared {
  static constexpr int kKeys = kHeadDim == 256 ? 48 : 128;  ///< keys of a stage
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

/// The blocks of kKeys keys that a tile of queries walks over: [first, blocks), from the last one
/// on.
template <int kKeys, bool kWindowed>
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
  constexpr int kKeys = Shared::kKeys;
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
    const KeyWalk<kKeys, kWindowed> walk(tile, p.window);
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
  constexpr int kKeys = Shared::kKeys;
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
    const KeyWalk<kKeys, kWindowed> walk(tile, p.window);
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

template <int kHeadDim, bool kWindowed>
void launch_backward(cudaStream_t stream, const AttentionBackward& op, TileCounter* counter) {
  if (op.q.shape[0] == 0) return;
  launch_attention_delta(stream, op);
  constexpr int kTileKeys = kHeadDim == 256 ? kWideTileKeys : kRows;
  const bool add_dq = kHeadDim != 256 && static_cast<bool>(op.dq_sum);
  BackwardParams params{
      .q = make_head_map(op.q, kQueries),
      .d_o = make_head_map(op.d_o, kQueries),
      .k = make_head_map(op.k, kTileKeys),
      .v = make_head_map(op.v, kTileKeys),
      .dq_sum = add_dq ? make_sum_map(op.dq_sum, kQueries) : CUtensorMap{},
      .segments = make_segments(op.segments, op.q.shape[0]),
      .order = make_key_tile_order(op.segments, op.q, op.k, kTileKeys),
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
  if constexpr (kHeadDim == 256) {
    launch_wide_key_gradients(stream, params, kWindowed);
  } else {
    launch_key_gradients(stream, params, kHeadDim, add_dq, kWindowed);
    if (add_dq) return launch_round_dq(stream, op);
  }
  params.q = make_head_map(op.q, kRows);
  params.d_o = make_head_map(op.d_o, kRows);
  params.k = make_head_map(op.k, QueryShared<kHeadDim>::kKeys);
  params.v = make_head_map(op.v, QueryShared<kHeadDim>::kKeys);
  params.order = make_query_tiles(op.segments, op.q, op.k, kRows).order;
  params.heads = narrow<int>(op.q.shape[1]);
  launch(persistent<QueryShared<kHeadDim>>(stream, params.order),
         hopper_query_gradients_kernel<kHeadDim, kWindowed>, params);
}

}  // namespace

}  // namespace hopper_backward

void launch_hopper_backward(cudaStream_t stream, const AttentionBackward& op,
                            TileCounter* counter) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    constexpr bool kWindowed = kScores != ScoreKind::kPlain;
    switch (op.q.shape[2]) {
      case 64: return hopper_backward::launch_backward<64, kWindowed>(stream, op, counter);
      case 128: return hopper_backward::launch_backward<128, kWindowed>(stream, op, counter);
      default: return hopper_backward::launch_backward<256, kWindowed>(stream, op, counter);
    }
  });
}

const void* hopper_backward_module() {
  return reinterpret_cast<const void*>(&hopper_backward::hopper_query_gradients_kernel<128, false>);
}

}  // namespace strata::cuda
