// This file applies RoPE on CUDA, forth and back, in place; CudaKernels launches it through
// operators.h, and attention's backward where its own kernels leave the rotation out. It takes bf16
// and f32 and rounds once.
//
// For i < E/2, with the angle of (positions[n], i) and (a, b) = (i, i + E/2) or (2 i, 2 i + 1):
//   x[a], x[b] = x[a] cos - x[b] sin, x[b] cos + x[a] sin   (backward: -angle).
//
// Shapes: x [N, heads, D], rotated in place, rows may be strided; cos and sin [P, E/2] f32, E <= D.
// Tile: one thread for W pairs of one head (W = 8 in bf16: two loads and two stores of 16 bytes);
// the tables are small and stay in the caches.
// Numerics: f32, rounded once.
// Measured on one H200, 2026-11-21, bf16: 3.8 TB/s (a copy moves 4.1).
// Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/rope_pieces.cuh"

namespace strata::cuda {
namespace {

/// Turns W pairs of neighbours, which begin at `first`: pair i of `half`.
template <class T, int W>
__device__ __forceinline__ void rotate_neighbours(const RopeTables& tables, std::int64_t n, int i,
                                                  int half, T* first) {
  float front[W];
  float back[W];
  load(first, front);
  load(first + W, back);
  float both[2 * W];
#pragma unroll
  for (int j = 0; j < W; ++j) {
    both[j] = front[j];
    both[W + j] = back[j];
  }
  float a[W];
  float b[W];
#pragma unroll
  for (int j = 0; j < W; ++j) {
    a[j] = both[2 * j];
    b[j] = both[2 * j + 1];
  }
  rotate(tables, n, i, half, a, b);
#pragma unroll
  for (int j = 0; j < W; ++j) {
    both[2 * j] = a[j];
    both[2 * j + 1] = b[j];
  }
#pragma unroll
  for (int j = 0; j < W; ++j) {
    front[j] = both[j];
    back[j] = both[W + j];
  }
  store(first, front);
  store(first + W, back);
}

template <class T, int W, RopePairs kPairs>
__global__ void rope(Rows<T> x, RopeTables tables, int head_dim, int half, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t column) {
    const int head = static_cast<int>(column) / half;
    const int i = static_cast<int>(column) % half;
    T* low = x.row(n) + static_cast<std::int64_t>(head) * head_dim + i;
    if constexpr (kPairs == RopePairs::kNeighbours) {
      return rotate_neighbours<T, W>(tables, n, i, half, low + i);
    }
    T* high = low + half;
    float a[W];
    float b[W];
    load(low, a);
    load(high, b);
    rotate(tables, n, i, half, a, b);
    store(low, a);
    store(high, b);
  });
}

}  // namespace

void enqueue(const Context& context, const Rope& op) {
  const std::int64_t head_dim = op.x.shape[2];
  const std::int64_t half = op.cos.shape[1];
  const Extent extent{op.x.rows(), op.x.shape[1] * half};
  const RopeTables tables{.positions = data<std::int32_t>(op.positions),
                          .cos = data<float>(op.cos),
                          .sin = data<float>(op.sin),
                          .sign = op.direction == RopeDirection::kForward ? 1.0f : -1.0f};
  const bool wide =
      is_wide(op.x.dtype, half, {op.x, op.cos, op.sin}) && is_wide(op.x.dtype, head_dim, {});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const auto kernel = op.pairs == RopePairs::kHalves ? rope<T, W, RopePairs::kHalves>
                                                       : rope<T, W, RopePairs::kNeighbours>;
    launch(chained(over(op.kName, context.stream, extent, W)), kernel, Rows<T>(op.x), tables,
           static_cast<int>(head_dim), static_cast<int>(half), extent);
  });
}

const void* rope_module() {
  return reinterpret_cast<const void*>(&rope<float, 1, RopePairs::kHalves>);
}

}  // namespace strata::cuda
