// This file computes RMSNorm of single heads on CUDA, forward; CudaKernels launches it through
// operators.h, and head_norm_backward.cu has the backward. It takes bf16 and f32, heads of any
// width and alignment, and gives the same bits in every run.
//
// y = x * rstd * (weight + offset) with rstd = 1 / sqrt(mean(x^2) + eps).
//
// Shapes: x, y [N, heads, D], rows may be strided; weight [D]; rstd [N, heads]. Tile: the lanes of
// head_norm_pieces.cuh. A group of lanes asks for four heads before it computes on the first, since
// a head alone is too little under way to keep memory busy. Heads that do not fit the registers
// take a warp each. Numerics: f32. Sums over a head: each lane its columns in ascending order, then
// a fixed tree. Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/head_norm_pieces.cuh"
#include "kernels/cuda/rows/norm_pieces.cuh"

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
  float offset;  ///< of weights
};

/// Takes aligned heads of at most kLanes pieces; `step` is from a head of a group to its next.
template <class T, int kLanes>
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
  place = begin;
#pragma unroll
  for (int i = 0; i < kHeadsAtOnce; ++i) {
    float values[W];
    float squares = 0;
    unpack(x[i], values);
    add_squares(values, squares);
    const float rstd = rstd_of(group_sum<kLanes>(squares), heads.size, p.eps);
    if (exists(i)) {
      if (c == 0 && p.rstd != nullptr) p.rstd[first + i * kGroups] = rstd;
      normalise(values, weight, rstd);
      store_piece(place.in(p.y, heads) + c, values);
    }
    step.advance(place, heads);
  }
}

/// Takes heads of any width and alignment, a warp each.
template <class T, int W>
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
  for (int c = lane * W; c < heads.size; c += kWarp * W) {
    float weight[W];
    load(x + c, values);
    load(p.weight + c, weight);
    add_offset(weight, p.offset);
    normalise(values, weight, rstd);
    store(y + c, values);
  }
}

}  // namespace

void enqueue(const Context& context, const HeadNormForward& op) {
  const Heads heads = heads_of(op.x);
  if (heads.count == 0) return;
  const bool wide = is_wide(op.x.dtype, heads.size, {op.x, op.weight, op.y});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.x = Rows<const T>(op.x),
                                 .weight = data<T>(op.weight),
                                 .y = Rows<T>(op.y),
                                 .rstd = data<float>(op.rstd),
                                 .eps = static_cast<float>(op.eps),
                                 .offset = static_cast<float>(op.offset)};
    Launch where{.name = op.kName, .stream = context.stream, .block = kThreads};
    const auto in_registers = [&]<int kLanes>() {
      constexpr int kGroups = kThreads / kLanes;
      where.grid = blocks_for(heads.count, kGroups * kHeadsAtOnce);
      launch(chained(where), head_norm_in_registers<T, kLanes>, arguments, heads,
             HeadStep(heads, kGroups));
    };
    if (wide && with_lanes(heads.size / W, in_registers)) return;
    where.grid = blocks_for(heads.count, kWarps);
    launch(chained(where), head_norm_reread<T, W>, arguments, heads);
  });
}

const void* head_norm_module() {
  return reinterpret_cast<const void*>(&head_norm_reread<float, 1>);
}

}  // namespace strata::cuda
