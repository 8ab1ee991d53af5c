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

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/attention/hopper/named_barriers.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"
#include "kernels/cuda/common/hopper_copies.cuh"
#include "kernels/cuda/common/hopper_products.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/tensor_map.h"

namespace strata::cuda {

namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
constexpr int kStages = 2;  ///< stages of keys and of values

struct ForwardParams {
  CUtensorMap q, k, v;
  Segments segments;
  WorkOrder order;
  TileCounter* counter;
  int heads;
  int group;  ///< query heads of a kv head
  std::int64_t query_rows;
  HeadRows<std::uint16_t> o;
  float* lse;
  float scale;
  float scale_log2;  ///< scale * log2(e)
  int window;        ///< see ScoreShape
};

template <int kHeadDim>
struct Shape {
  static constexpr int kConsumers = kHeadDim == 64 ? 3 : 2;  ///< warpgroups
  static constexpr int kQueries = 64 * kConsumers;
  static constexpr int kKeys = kHeadDim == 256 ? 80 : 128;      ///< keys of a block
  static constexpr int kQueryStages = kHeadDim == 256 ? 1 : 2;  ///< stages of tiles of queries
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  // Together the warps take no more registers than the block has at its launch: 168 (128) a thread.
  static constexpr int kProducerRegisters = kHeadDim == 64 ? 32 : 40;
  static constexpr int kConsumerRegisters = kHeadDim == 64 ? 160 : 232;
  using Queries = PanelTile<kHeadDim, kQueries>;
  using Keys = PanelTile<kHeadDim, kKeys>;
};

template <int kHeadDim>
struct Shared {
  static constexpr int kQueryStages = Shape<kHeadDim>::kQueryStages;

  unsigned char q[kQueryStages][Shape<kHeadDim>::Queries::kBytes];
  unsigned char k[kStages][Shape<kHeadDim>::Keys::kBytes];
  unsigned char v[kStages][Shape<kHeadDim>::Keys::kBytes];
  std::uint64_t q_full[kQueryStages], q_empty[kQueryStages];
  std::uint64_t k_full[kStages], k_empty[kStages];
  std::uint64_t v_full[kStages], v_empty[kStages];
  TileQueue tiles;
};

/// The blocks of kKeys keys that a tile of queries walks over: [first, blocks), from the last one
/// on.
template <int kKeys, bool kWindowed>
struct KeyWalk {
  int last_key;  ///< the tile's first query sees up to it; row i sees i more, up to the segment's
                 ///< end
  int first = 0;
  int blocks;
  int unmasked;   ///< blocks from this one on have keys that are after some row
  int clear = 0;  ///< blocks before this one have keys that the window hides from some row

  __device__ KeyWalk(const SegmentTile& tile, int window)
      : last_key(tile.begin + tile.segment.q_offset) {
    const int visible = max(0, min(tile.segment.k_length, last_key + tile.rows));
    blocks = (visible + kKeys - 1) / kKeys;
    unmasked = max(0, min(tile.segment.k_length, last_key + 1)) / kKeys;
    if constexpr (kWindowed) {
      first = min(visible, max(0, last_key + 1 - window)) / kKeys;
      clear = (max(0, last_key + tile.rows - window) + kKeys - 1) / kKeys;
    }
  }
};

// --- Producer ------------------------------------------------------------------------------------

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

// --- Consumers -----------------------------------------------------------------------------------

/// Removes scores of keys that a row does not see. `last_key` belongs to this lane's first row, and
/// `end_key` to the segment, both relative to the block's first key.
template <bool kWindowed, int kCount>
__device__ __forceinline__ void mask_scores(float (&s)[kCount], int last_key, int end_key,
                                            int window) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int end = min(last_key + 8 * half + 1, end_key) - column;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      if (8 * j >= end) s[4 * j + 2 * half] = kNoScore;
      if (8 * j + 1 >= end) s[4 * j + 2 * half + 1] = kNoScore;
    }
    if constexpr (kWindowed) {
      const int begin = last_key + 8 * half + 1 - window - column;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
        if (8 * j < begin) s[4 * j + 2 * half] = kNoScore;
        if (8 * j + 1 < begin) s[4 * j + 2 * half + 1] = kNoScore;
      }
    }
  }
}

/// The running maximum and sum (of this lane's columns only) of this lane's two rows.
struct RowStatistics {
  float maximum[2] = {kNoScore, kNoScore};
  float sum[2] = {0, 0};
  float correction[2];  ///< the factor of what was summed before the last step

  /// Turns scores into probabilities relative to the new maximum.
  template <bool kMasked, int kCount>
  __device__ __forceinline__ void step(float (&s)[kCount], float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = maximum[half];
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
        top = fmaxf(top, fmaxf(s[4 * j + 2 * half], s[4 * j + 2 * half + 1]));
      }
      top = row_max(top);
      // A row that has seen no key yet keeps probabilities of 0 instead of exp(-inf - -inf).
      const float base = kMasked && top == kNoScore ? 0.0f : top * scale_log2;
      correction[half] = fast_exp2(fmaf(maximum[half], scale_log2, -base));
      maximum[half] = top;
      float added = 0;
#pragma unroll
      for (int j = 0; j < kCount / 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * j + 2 * half + e];
          x = fast_exp2(fmaf(x, scale_log2, -base));
          added += x;
        }
      }
      sum[half] = fmaf(sum[half], correction[half], added);
    }
  }
  template <int kCount>
  __device__ __forceinline__ void correct(float (&o)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) o[i] *= correction[i / 2 % 2];
  }
};

/// Warpgroups issue their products in turns.
template <int kConsumers, bool kAnew>
struct Turns {
  int own;  ///< the warpgroup, unless it is worked out anew: head dim 256 leaves no register
  [[nodiscard]] __device__ int warpgroup() const {
    if constexpr (kAnew) return Place::warpgroup();
    return own;
  }
  __device__ void wait() const { named_barrier_wait(turn_of(warpgroup()), 2 * kWarpgroup); }
  __device__ void pass() const {
    named_barrier_arrive(turn_of((warpgroup() + 1) % kConsumers), 2 * kWarpgroup);
  }
};

template <int kHeadDim, bool kWindowed>
class Consumer {
 public:
  using S = Shape<kHeadDim>;
  using Queries = typename S::Queries;
  using Keys = typename S::Keys;
  static constexpr int kKeys = S::kKeys;
  using Walk = KeyWalk<kKeys, kWindowed>;

  __device__ Consumer(const ForwardParams& params, Shared<kHeadDim>& memory, int warpgroup)
      : p(params), s(memory), tiles(memory.tiles), turns{warpgroup} {}

  __device__ void run() {
    if (turns.warpgroup() == S::kConsumers - 1) turns.pass();  // gives the first one its first turn
    for (;; tiles.done()) {
      // It is read where it is used, and not kept: registers are scarce.
      const SegmentTile& tile = tiles.get();
      if (tile.rows == 0) return;
      barrier(s.q_full[queries.stage()]).wait(queries.parity());
      RowStatistics rows;
      float o[kHeadDim / 2];
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) o[i] = 0;
      const Walk walk(tile, p.window);
      if (walk.blocks > walk.first) attend(tile, walk, rows, o);
      free(s.q_empty[queries.stage()]);
      queries.advance();
      write(tile, rows, o);
    }
  }

 private:
  __device__ void free(const std::uint64_t& empty) const { barrier(empty).arrive_for_warp(); }
  __device__ __forceinline__ void attend(const SegmentTile& tile, const Walk& walk,
                                         RowStatistics& rows, float (&o)[kHeadDim / 2]) {
    const std::uint64_t q = Queries::descriptor(shared_address(s.q[queries.stage()]) +
                                                turns.warpgroup() * 64 * kPanelRowBytes);
    float scored[kKeys / 2];
    Bf16Pair probabilities[kKeys / 16][4];
    const auto mask = [&](int j) {
      mask_scores<kWindowed>(scored, walk.last_key + Place::row() + Place::lane_row() - j * kKeys,
                             tile.segment.k_length - j * kKeys, p.window);
    };
    // With a window a block before the first that is clear of it may have been reached here.
    const int end_of_masked = kWindowed ? max(walk.unmasked, walk.first) : walk.unmasked;
    int j = walk.blocks - 1;
    turns.wait();
    issue_scores(scored, q);
    turns.pass();
    wait_products<0>();
    finish_scores(scored);
    mask(j);
    rows.template step<true>(scored, p.scale_log2);
    pack_scores(probabilities, scored);
    for (--j; j >= end_of_masked; --j) {
      issue_both(scored, o, probabilities, q);
      finish_scores(scored);
      mask(j);
      rows.template step<true>(scored, p.scale_log2);
      finish_sum<2>(o);
      rows.correct(o);
      pack_scores(probabilities, scored);
    }
    for (; j >= walk.clear; --j) {
      issue_both(scored, o, probabilities, q);
      finish_scores(scored);
      rows.template step<false>(scored, p.scale_log2);
      finish_sum<2>(o);
      rows.correct(o);
      pack_scores(probabilities, scored);
    }
    if constexpr (kWindowed) {
      for (; j >= walk.first; --j) {
        issue_both(scored, o, probabilities, q);
        finish_scores(scored);
        mask(j);
        rows.template step<true>(scored, p.scale_log2);
        finish_sum<2>(o);
        rows.correct(o);
        pack_scores(probabilities, scored);
      }
    }
    turns.wait();
    issue_sum(o, probabilities);
    turns.pass();
    finish_sum<1>(o);
  }

  /// Starts the scores of the next block of keys.
  __device__ __forceinline__ void issue_scores(float (&scored)[kKeys / 2], std::uint64_t q) {
    barrier(s.k_full[blocks.stage()]).wait(blocks.parity());
    pin_registers(scored);
    fence_products();
    scores<Queries, Keys, kHeadDim>(scored, q,
                                    Keys::descriptor(shared_address(s.k[blocks.stage()])));
    commit_products();
  }
  __device__ __forceinline__ void finish_scores(float (&scored)[kKeys / 2]) {
    pin_registers(scored);
    free(s.k_empty[blocks.stage()]);
    blocks.advance();
  }
  /// Starts the weighted sum of the block before that.
  __device__ __forceinline__ void issue_sum(float (&o)[kHeadDim / 2],
                                            const Bf16Pair (&probabilities)[kKeys / 16][4]) {
    const RingPosition<kStages> of_sum = blocks.before(1);
    barrier(s.v_full[of_sum.stage()]).wait(of_sum.parity());
    pin_registers(o);
    fence_products();
    weighted_sum<Keys>(o, probabilities, Keys::descriptor(shared_address(s.v[of_sum.stage()])));
    commit_products();
  }
  __device__ __forceinline__ void issue_both(float (&scored)[kKeys / 2], float (&o)[kHeadDim / 2],
                                             const Bf16Pair (&probabilities)[kKeys / 16][4],
                                             std::uint64_t q) {
    turns.wait();
    issue_scores(scored, q);
    issue_sum(o, probabilities);
    turns.pass();
    wait_products<1>();
  }
  /// Waits for all products. After issue_both the block of the scores is finished already, so the
  /// sum's block is the one before it.
  template <int kBlocksSince>
  __device__ __forceinline__ void finish_sum(float (&o)[kHeadDim / 2]) {
    wait_products<0>();
    pin_registers(o);
    free(s.v_empty[blocks.before(kBlocksSince).stage()]);
  }

  __device__ void write(const SegmentTile& tile, RowStatistics& rows, float (&o)[kHeadDim / 2]) {
    const int row = Place::row();
    const int first_row = tile.segment.q_begin + tile.begin + row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(rows.sum[half]);
      rows.correction[half] = sum > 0 ? 1 / sum : 0.0f;
      const int at = Place::lane_row() + 8 * half;
      if (threadIdx.x % 4 == 0 && row + at < tile.rows) {
        p.lse[tile.head * p.query_rows + first_row + at] =
            sum > 0 ? fmaf(rows.maximum[half], p.scale, logf(sum)) : kNoScore;
      }
    }
    rows.correct(o);
    store_rows(o, p.o.row(first_row, tile.head), p.o.stride, tile.rows - row);
  }

  const ForwardParams& p;
  Shared<kHeadDim>& s;
  TileReader tiles;
  Turns<S::kConsumers, kHeadDim == 256> turns;
  RingPosition<S::kQueryStages> queries;
  RingPosition<kStages> blocks;  ///< the block whose scores come next
};

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

void launch_hopper_forward(cudaStream_t stream, const AttentionForward& op, TileCounter* counter) {
  with_score_kind(op, op.segments.uniform_length, [&]<ScoreKind kScores>() {
    constexpr bool kWindowed = kScores != ScoreKind::kPlain;
    switch (op.q.shape[2]) {
      case 64: return launch_forward<64, kWindowed>(stream, op, counter);
      case 128: return launch_forward<128, kWindowed>(stream, op, counter);
      default: return launch_forward<256, kWindowed>(stream, op, counter);
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
  return {reinterpret_cast<const void*>(&hopper_forward_kernel<128, false>),
          hopper_backward_module()};
}

}  // namespace strata::cuda
