// This file has the embedding, forward and backward, on CUDA; CudaKernels launches both through
// operators.h. Ids must lie within the table, which the device does not check; the backward adds a
// token's rows in ascending position, so results repeat, and where nothing is scaled they are those
// of the CPU.
//
// Forward: y[n] = scale * table[ids[n]].   Backward: d_table[ids[n]] += scale * dy[n].
//
// Shapes: ids [N], table [V, C], y and dy [N, C], d_table [V, C] f32.
// Tile, forward: one thread per 16 bytes of y.
// Tile, backward: `order` lists positions by (token, position), so a token's positions are one
// run; a warp owns a run and 32 W columns of its table row (W = 8 for bf16: 256 columns) and walks
// the run. Warps whose position does not begin a run have nothing to do. No two warps write the
// same element, so there are no atomics. Runs of frequent tokens are long: kAhead positions are
// loaded before the first of them is added.
// Numerics, forward: a copy where scale is 1, else a product in f32, rounded once; the scale is of
// the dtype of the table.
// Numerics, backward: f32, one position after the other onto the old value, in ascending position,
// each with its scale by one fma: where scale is 1, bitwise equal to the CPU.
// Measured on one H200, 2026-11-21, C = 4096 in bf16, 8192 Zipf-like tokens: forward 3.1 TB/s,
// backward 1.6 (a copy moves 4.2): it takes as long as its longest run.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "strata/base/round.h"

namespace strata::cuda {
namespace {

constexpr int kWarpsPerBlock = 4;
/// How many loads of a lane are in flight.
constexpr int kAhead = 16;

template <class T, int W>
__global__ void embedding_forward(const std::int32_t* ids, Rows<const T> table, Rows<T> y,
                                  float scale, Extent extent) {
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const T* from = table.row(ids[n]) + c;
    if (scale == 1.0f) return store_raw(y.row(n) + c, load_raw<T, W>(from));
    float values[W];
    load(from, values);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] *= scale;
    store(y.row(n) + c, values);
  });
}

template <class T>
struct BackwardArguments {
  const std::int32_t* ids;
  const std::int32_t* order;
  Rows<const T> dy;
  Rows<float> d_table;
  std::int64_t positions;
  std::int64_t columns;
  float scale;
};

/// Returns the scale of an operator as a number of the dtype.
template <class T>
float scale_of(double scale) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return static_cast<float>(scale);
  } else {
    return static_cast<float>(rounded_to_bf16(scale));
  }
}

/// Adds scaled rows of dy onto `sum`, in order; lane i knows the i-th of the `count` positions.
template <class T, int W>
__device__ __forceinline__ void add_positions(const Rows<const T>& dy,
                                              std::int32_t position_of_lane, int count,
                                              std::int64_t column, bool active, float scale,
                                              float (&sum)[W]) {
  for (int first = 0; first < count; first += kAhead) {
    Packed<T, W> loaded[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const std::int32_t position = __shfl_sync(kAllLanes, position_of_lane, first + i);
      if (active && first + i < count) loaded[i] = load_packed<T, W>(dy.row(position) + column);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (!active || first + i >= count) continue;
      float values[W];
      unpack(loaded[i], values);
#pragma unroll
      for (int j = 0; j < W; ++j) sum[j] = fmaf(values[j], scale, sum[j]);
    }
  }
}

template <class T, int W>
__global__ void embedding_backward(BackwardArguments<T> p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t chunks = (p.columns + kWarp * W - 1) / (kWarp * W);
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp;
  const std::int64_t column = (warp % chunks) * (kWarp * W) + lane * W;
  const bool active = column < p.columns;
  std::int64_t at = warp / chunks;
  if (at >= p.positions) return;
  const std::int32_t token = p.ids[p.order[at]];
  if (at > 0 && p.ids[p.order[at - 1]] == token) return;

  float* row = p.d_table.row(token) + column;
  float sum[W];
  if (active) load(row, sum);
  int count = kWarp;
  while (count == kWarp) {
    std::int32_t position = -1;
    if (at + lane < p.positions) {
      const std::int32_t candidate = p.order[at + lane];
      if (p.ids[candidate] == token) position = candidate;
    }
    const unsigned others = ~__ballot_sync(kAllLanes, position >= 0);
    count = others == 0 ? kWarp : __ffs(static_cast<int>(others)) - 1;
    add_positions(p.dy, position, count, column, active, p.scale, sum);
    at += count;
  }
  if (active) store(row, sum);
}

}  // namespace

void enqueue(const Context& context, const EmbeddingForward& op) {
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.table, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    launch(over(op.kName, context.stream, extent, W), embedding_forward<T, W>,
           data<std::int32_t>(op.ids), Rows<const T>(op.table), Rows<T>(op.y),
           scale_of<T>(op.scale), extent);
  });
}

void enqueue(const Context& context, const EmbeddingBackward& op) {
  const std::int64_t columns = op.dy.shape[1];
  const bool wide = is_wide(op.dy.dtype, columns, {op.dy, op.d_table});
  with_dtype_and_width(op.kName, op.dy.dtype, wide, [&]<class T, int W>() {
    const BackwardArguments<T> arguments{.ids = data<std::int32_t>(op.ids),
                                         .order = data<std::int32_t>(op.order),
                                         .dy = Rows<const T>(op.dy),
                                         .d_table = Rows<float>(op.d_table),
                                         .positions = op.dy.rows(),
                                         .columns = columns,
                                         .scale = scale_of<T>(op.scale)};
    const std::int64_t chunks = (columns + kWarp * W - 1) / (kWarp * W);
    launch({.name = op.kName,
            .stream = context.stream,
            .grid = blocks_for(arguments.positions * chunks, kWarpsPerBlock),
            .block = kWarpsPerBlock * kWarp},
           embedding_backward<T, W>, arguments);
  });
}

const void* embedding_module() {
  return reinterpret_cast<const void*>(&embedding_forward<float, 1>);
}

}  // namespace strata::cuda
