// This file computes the forward of attention for compute capability 9.0, in bf16 with head dims
// 64, 128 and 256. attention.cu launches it there unless kernels.attention says otherwise, for rows
// aligned to 16 bytes. The result has the same bits every time, whichever block computes a tile.
//
// o = softmax(scale * q k^T) v per head, causal within segments, and lse = log(sum(exp(scores))):
// flash_forward.cu for sm_90a, with windows but without caps. q [Nq, H, D], k, v [Nk, K, D], o [Nq,
// H, D] bf16, lse [H, Nq] f32; D is 64, 128 or 256.
//
// A persistent block has one producer warp and two (D = 64: three) warpgroups of consumers, each of
// which owns 64 queries of a tile. The producer finds tiles and copies q, k and v into rings in
// shared memory by TMA. A consumer walks over blocks of 128 (D = 256: 80) keys from the diagonal to
// the left (FlashAttention-3, Shah et al. 2024, section 3): it issues the scores of a block and the
// weighted sum of the block before together, and computes its softmax while the tensor cores do the
// latter. Warpgroups take turns at issuing, so that one computes its softmax under the other's
// products. With a window the walk ends where no query of the tile sees more, and its last blocks
// have a mask. Rows of other segments in a tile's last block of keys are masked; they must be
// finite.
//
// Numerics: as flash_forward.cu.
//
// Measured (attention_bench, one H200, 2026-11-21), 32 heads, TFLOP/s (cuDNN in the same run): head
// dim 128 at 2k, 4k, 8k, 16k tokens a row 583 (559), 648 (609), 691 (639), 715 (658); with 8 kv
// heads at 4k 664 (614); head dim 64 at 4k 492 (436). Head dim 256 with 16 heads,
// 2026-11-29: 698 at 4k, 751 at 8k, where 128 with 32 heads has 638 at 4k.

#include <cuda_runtime.h>

#include <numbers>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/hopper/hopper_forward.cuh"
#include "kernels/cuda/attention/hopper/hopper_forward_consumer.cuh"
#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"
#include "kernels/cuda/common/hopper_copies.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/tensor_map.h"

namespace strata::cuda {

namespace hopper_forward {

namespace {

/// Brings the tiles of queries, and the blocks of keys and values that each walks over, to shared
/// memory: the work of the producer.
template <int kHeadDim, bool kWindowed>
__device__ void copy_tiles(const ForwardParams& p, Shared<kHeadDim>& s) {
  using Queries = typename Shape<kHeadDim>::Queries;
  using Keys = typename Shape<kHeadDim>::Keys;
  constexpr int kKeys = Shape<kHeadDim>::kKeys;
  TileReader tiles(s.tiles);
  RingPosition<Shape<kHeadDim>::kQueryStages> q_at;
  RingPosition<kStages> k_at;
  RingPosition<kStages> v_at;
  for (;; tiles.done()) {
    const SegmentTile& tile = tiles.get();
    if (tile.rows == 0) return;
    const Barrier full = barrier(s.q_full[q_at.stage()]);
    barrier(s.q_empty[q_at.stage()]).wait(q_at.parity() ^ 1);
    full.arrive_and_expect(Queries::kBytes);
    copy_box(shared_address(s.q[q_at.stage()]), p.q, tile.segment.q_begin + tile.begin,
             tile.head * Queries::kPanels, full);
    q_at.advance();
    const int panel = tile.head / p.group * Keys::kPanels;
    const KeyWalk<kKeys, kWindowed> walk(tile, p.window);
    const int blocks = walk.blocks;
    const int first = walk.first;
    const auto copy_keys = [&](int j) {
      tiles.ask_for_next(j + 1 - first, blocks - first);
      const int stage = k_at.stage();
      barrier(s.k_empty[stage]).wait(k_at.parity() ^ 1);
      barrier(s.k_full[stage]).arrive_and_expect(Keys::kBytes);
      copy_box(shared_address(s.k[stage]), p.k, tile.segment.k_begin + j * kKeys, panel,
               barrier(s.k_full[stage]));
      k_at.advance();
    };
    const auto copy_values = [&](int j) {
      const int stage = v_at.stage();
      barrier(s.v_empty[stage]).wait(v_at.parity() ^ 1);
      barrier(s.v_full[stage]).arrive_and_expect(Keys::kBytes);
      copy_box(shared_address(s.v[stage]), p.v, tile.segment.k_begin + j * kKeys, panel,
               barrier(s.v_full[stage]));
      v_at.advance();
    };
    if (blocks == first) {
      tiles.ask_for_next(0, 0);
      continue;
    }
    // A consumer needs the keys of a block before the values of the one before.
    copy_keys(blocks - 1);
#pragma unroll 1  // the warp has few registers
    for (int j = blocks - 2; j >= first; --j) {
      copy_keys(j);
      copy_values(j + 1);
    }
    copy_values(first);
  }
}

template <int kHeadDim, bool kWindowed>
__global__ void __launch_bounds__(Shape<kHeadDim>::kThreads, 1)
    hopper_forward_kernel(const __grid_constant__ ForwardParams p) {
  using S = Shape<kHeadDim>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared<kHeadDim>& s = *reinterpret_cast<Shared<kHeadDim>*>(memory);
  if (threadIdx.x == 0) {
    constexpr int kConsumerWarps = 4 * S::kConsumers;
    s.tiles.init(32 * kConsumerWarps + 1);  // consumers, and the one thread that copies
    for (int i = 0; i < S::kQueryStages; ++i) {
      barrier(s.q_full[i]).init(1);
      barrier(s.q_empty[i]).init(kConsumerWarps);
    }
    for (int i = 0; i < kStages; ++i) {
      for (const auto* full : {&s.k_full[i], &s.v_full[i]}) barrier(*full).init(1);
      for (const auto* empty : {&s.k_empty[i], &s.v_empty[i]}) {
        barrier(*empty).init(kConsumerWarps);
      }
    }
    fence_barrier_init();
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (warpgroup == 0) {
    release_registers<S::kProducerRegisters>();
    if (threadIdx.x < 32) {
      find_tiles<S::kQueries>(p.segments, p.order, p.heads, true, p.counter, s.tiles);
    }
    if (threadIdx.x == 32) copy_tiles<kHeadDim, kWindowed>(p, s);
  } else {
    take_registers<S::kConsumerRegisters>();
    Consumer<kHeadDim, kWindowed>(p, s, warpgroup - 1).run();
  }
}

template <int kHeadDim, bool kWindowed>
void launch_forward(cudaStream_t stream, const AttentionForward& op, TileCounter* counter) {
  if (op.q.shape[0] == 0) return;
  using S = Shape<kHeadDim>;
  const QueryTiles tiles = make_query_tiles(op.segments, op.q, op.k, S::kQueries);
  const ForwardParams params{
      .q = make_head_map(op.q, S::kQueries),
      .k = make_head_map(op.k, S::kKeys),
      .v = make_head_map(op.v, S::kKeys),
      .segments = tiles.segments,
      .order = tiles.order,
      .counter = counter,
      .heads = tiles.heads,
      .group = narrow<int>(op.q.shape[1] / op.k.shape[1]),
      .query_rows = op.q.shape[0],
      .o = head_rows<std::uint16_t>(op.o),
      .lse = op.lse.as<float>(),
      .scale = static_cast<float>(op.scale),
      .scale_log2 = static_cast<float>(op.scale * std::numbers::log2e),
      .window = score_shape(op).window,
  };
  const int items = tiles.order.tiles * tiles.order.lanes;
  static_assert(sizeof(Shared<kHeadDim>) <= kMostHopperSharedBytes);
  launch({.name = AttentionForward::kName,
          .stream = stream,
          .grid = static_cast<unsigned>(std::min(items, multiprocessors())),
          .block = S::kThreads,
          .shared_bytes = sizeof(Shared<kHeadDim>)},
         hopper_forward_kernel<kHeadDim, kWindowed>, params);
}

}  // namespace

}  // namespace hopper_forward

void launch_hopper_forward(cudaStream_t stream, const AttentionForward& op, TileCounter* counter) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    constexpr bool kWindowed = kScores != ScoreKind::kPlain;
    switch (op.q.shape[2]) {
      case 64: return hopper_forward::launch_forward<64, kWindowed>(stream, op, counter);
      case 128: return hopper_forward::launch_forward<128, kWindowed>(stream, op, counter);
      default: return hopper_forward::launch_forward<256, kWindowed>(stream, op, counter);
    }
  });
}

bool hopper_available() {
  int device = 0;
  int major = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9;
}

std::vector<const void*> hopper_modules() {
  if (!hopper_available()) return {};
  return {reinterpret_cast<const void*>(&hopper_forward::hopper_forward_kernel<128, false>),
          hopper_backward_module()};
}

}  // namespace strata::cuda
