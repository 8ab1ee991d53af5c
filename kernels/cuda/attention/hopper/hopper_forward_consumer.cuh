// This file has the consumers of hopper_forward.cu: the warpgroups that compute scores, softmax and
// the weighted sums of values of their queries.

#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/hopper/hopper_forward.cuh"
#include "kernels/cuda/attention/hopper/hopper_tiles.cuh"
#include "kernels/cuda/attention/hopper/named_barriers.cuh"
#include "kernels/cuda/common/hopper_barriers.cuh"
#include "kernels/cuda/common/hopper_products.cuh"

namespace strata::cuda::hopper_forward {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

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

}  // namespace strata::cuda::hopper_forward
