// This file computes RMSNorm of single heads on CUDA, forward, and with a rotation the rotary
// embedding of its result; CudaKernels launches it through operators.h, and head_norm_backward.cu
// has the backward. It takes bf16 and f32, heads of any width and alignment, and gives the same
// bits in every run: those of the norm and of rope.cu, one after the other.
//
// y = x * rstd * (weight + offset) with rstd = 1 / sqrt(mean(x^2) + eps); then for i < D/2, with
// the angle of (positions[n], i): y[i], y[i + D/2] = y[i] cos - y[i + D/2] sin, y[i + D/2] cos +
// y[i] sin.
//
// Shapes: x, y [N, heads, D], rows may be strided; weight [D]; rstd [N, heads]; cos and sin
// [P, D/2]. Tile: the lanes of head_norm_pieces.cuh. A group of lanes asks for four heads before it
// computes on the first, since a head alone is too little under way to keep memory busy. The other
// numbers of a lane's pairs are in a lane half a head away, which hands them over as it has rounded
// them. Halves of heads that are no whole pieces are left to rope.cu. Heads that do not fit the
// registers take a warp each. Numerics: f32. Sums over a head: each lane its columns in ascending
// order, then a fixed tree. The norm is rounded, and the rotation once more. Naive version:
// kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/head_norm_pieces.cuh"
#include "kernels/cuda/rows/norm_pieces.cuh"
#include "kernels/cuda/rows/rope_pieces.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kHeadsAtOnce = 4;  ///< of a group of lanes

template <class T>
struct Arguments {
  Rows<const T> x;
  const T* weight;
  Rows<T> y;
  float* rstd;  ///< may be null
  float eps;
  float offset;       ///< of weights
  RopeTables tables;  ///< without a rotation they are null
};

/// How a lane turns its piece of heads: which pairs its columns belong to, and which lane holds the
/// other number of each.
struct PieceTurn {
  RopeTables tables;  ///< the sign is -1 for lanes with the first numbers of pairs
  int half;           ///< pairs of a head
  int pair;           ///< of the first column
  int partner;

  /// `c` is the lane's first column, of heads whose halves are whole pieces of `w`; a lane that
  /// owns no column has no partner but itself.
  __device__ __forceinline__ PieceTurn(const RopeTables& of, int size, int c, int w)
      : tables(of), half(size / 2) {
    const bool is_first = c < half;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    tables.sign = is_first ? -1.0f : 1.0f;
    pair = is_first ? c : c - half;
    partner = c < size ? lane + (is_first ? half : -half) / w : lane;
  }
  /// Rounds the lane's numbers and turns them. All lanes of the warp take part.
  template <class T, int W>
  __device__ __forceinline__ void operator()(const Angles<W>& angles, float (&values)[W]) const {
    const Packed<T, W> own = packed_piece<T>(values);
    Packed<T, W> others;
#pragma unroll
    for (int i = 0; i < own.kWords; ++i) {
      others.words[i] = __shfl_sync(kAllLanes, own.words[i], partner);
    }
    float other[W];
    unpack(own, values);
    unpack(others, other);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = turned(values[i], angles.cos[i], other[i], angles.sin[i]);
    }
  }
};

/// Takes aligned heads of at most kLanes pieces, and if it turns them of an even number; `step` is
/// from a head of a group to its next.
template <class T, int kLanes, bool kTurns>
__global__ void __launch_bounds__(kThreads)
    head_norm_in_registers(Arguments<T> p, Heads heads, HeadStep step) {
  constexpr int W = kWide<T>;
  constexpr int kGroups = kThreads / kLanes;
  begin_chained();
  const int c = static_cast<int>(threadIdx.x) % kLanes * W;
  const bool owns = c < heads.size;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kGroups * kHeadsAtOnce +
                             static_cast<int>(threadIdx.x) / kLanes;
  const auto exists = [&](int i) { return owns && first + i * kGroups < heads.count; };
  const HeadPlace begin(heads, first);
  Packed<T, W> x[kHeadsAtOnce] = {};
  HeadPlace place = begin;
#pragma unroll
  for (int i = 0; i < kHeadsAtOnce; ++i) {
    if (exists(i)) x[i] = load_packed<T, W>(place.in(p.x, heads) + c);
    step.advance(place, heads);
  }
  float weight[W] = {};
  if (owns) load(p.weight + c, weight);
  add_offset(weight, p.offset);
  [[maybe_unused]] const PieceTurn turn(p.tables, heads.size, c, W);
  place = begin;
#pragma unroll
  for (int i = 0; i < kHeadsAtOnce; ++i) {
    [[maybe_unused]] Angles<W> angles = {};
    if constexpr (kTurns) {
      if (exists(i)) angles.load_from(turn.tables, place.token, turn.pair, turn.half);
    }
    float values[W];
    float squares = 0;
    unpack(x[i], values);
    add_squares(values, squares);
    const float rstd = rstd_of(group_sum<kLanes>(squares), heads.size, p.eps);
    normalise(values, weight, rstd);
    if constexpr (kTurns) turn.template operator()<T>(angles, values);
    if (exists(i)) {
      if (c == 0 && p.rstd != nullptr) p.rstd[first + i * kGroups] = rstd;
      store_piece(place.in(p.y, heads) + c, values);
    }
    step.advance(place, heads);
  }
}

/// Loads and normalises W columns of a head, from `c` on.
template <class T, int W>
__device__ __forceinline__ void load_normalised(const Arguments<T>& p, const T* head, int c,
                                                float rstd, float (&values)[W]) {
  float weight[W];
  load(head + c, values);
  load(p.weight + c, weight);
  add_offset(weight, p.offset);
  normalise(values, weight, rstd);
}

template <class T, int W>
__device__ __forceinline__ void round_to(float (&values)[W]) {
#pragma unroll
  for (float& value : values) value = widen(narrow_to<T>(value));
}

/// Takes heads of any width and alignment, a warp each.
template <class T, int W, bool kTurns>
__global__ void __launch_bounds__(kThreads) head_norm_reread(Arguments<T> p, Heads heads) {
  begin_chained();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t head =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (head >= heads.count) return;
  const HeadPlace place(heads, head);
  const T* x = place.in(p.x, heads);
  float values[W];
  float squares = 0;
  for (int c = lane * W; c < heads.size; c += kWarp * W) {
    load(x + c, values);
    add_squares(values, squares);
  }
  const float rstd = rstd_of(group_sum<kWarp>(squares), heads.size, p.eps);
  if (lane == 0 && p.rstd != nullptr) p.rstd[head] = rstd;
  T* y = place.in(p.y, heads);
  if constexpr (kTurns) {
    const int half = heads.size / 2;
    for (int i = lane * W; i < half; i += kWarp * W) {
      float high[W];
      load_normalised<T>(p, x, i, rstd, values);
      load_normalised<T>(p, x, i + half, rstd, high);
      round_to<T>(values);
      round_to<T>(high);
      rotate(p.tables, place.token, i, half, values, high);
      store(y + i, values);
      store(y + i + half, high);
    }
  } else {
    for (int c = lane * W; c < heads.size; c += kWarp * W) {
      load_normalised<T>(p, x, c, rstd, values);
      store(y + c, values);
    }
  }
}

/// Returns whether heads are read, and their squares added up, by pieces of 16 bytes.
bool takes_pieces(const HeadNormForward& op) {
  return is_wide(op.x.dtype, op.x.shape[2], {op.x, op.weight, op.y});
}

/// If heads are taken by pieces and turned, their halves are whole pieces too.
template <bool kTurns>
void enqueue_norm(const Context& context, const HeadNormForward& op) {
  const Heads heads = heads_of(op.x);
  if (heads.count == 0) return;
  const RopeAngles& turn = op.rotation;
  const bool wide = takes_pieces(op);
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.x = Rows<const T>(op.x),
                                 .weight = data<T>(op.weight),
                                 .y = Rows<T>(op.y),
                                 .rstd = data<float>(op.rstd),
                                 .eps = static_cast<float>(op.eps),
                                 .offset = static_cast<float>(op.offset),
                                 .tables = {.positions = data<std::int32_t>(turn.positions),
                                            .cos = data<float>(turn.cos),
                                            .sin = data<float>(turn.sin),
                                            .sign = 1.0f}};
    Launch where{.name = op.kName, .stream = context.stream, .block = kThreads};
    const auto in_registers = [&]<int kLanes>() {
      constexpr int kGroups = kThreads / kLanes;
      where.grid = blocks_for(heads.count, kGroups * kHeadsAtOnce);
      launch(chained(where), head_norm_in_registers<T, kLanes, kTurns>, arguments, heads,
             HeadStep(heads, kGroups));
    };
    if (wide && with_lanes(heads.size / W, in_registers)) return;
    where.grid = blocks_for(heads.count, kWarps);
    launch(chained(where), head_norm_reread<T, W, kTurns>, arguments, heads);
  });
}

}  // namespace

/// The order of a sum depends on the pieces, so heads whose halves are no whole ones are turned by
/// rope.cu: with single numbers instead of pieces rstd would have other bits than without rotation.
void enqueue(const Context& context, const HeadNormForward& op) {
  if (!op.rotation) return enqueue_norm<false>(context, op);
  const auto& [positions, cos, sin] = op.rotation;
  if (!takes_pieces(op) || is_wide(op.x.dtype, op.x.shape[2] / 2, {cos, sin})) {
    return enqueue_norm<true>(context, op);
  }
  enqueue_norm<false>(context, op);
  enqueue(context, Rope{.x = op.y, .positions = positions, .cos = cos, .sin = sin});
}

const void* head_norm_module() {
  return reinterpret_cast<const void*>(&head_norm_reread<float, 1, false>);
}

}  // namespace strata::cuda
