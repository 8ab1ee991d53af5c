// This file caps values smoothly on CUDA, forward and backward; CudaKernels launches both through
// operators.h. It takes bf16 and f32, rows of any width and alignment, and gives the same bits in
// every run.
//
// y = cap * tanh(x / cap);  dx = dy * (1 - (y / cap)^2).
//
// Shapes: x, y, dy, dx [N, C], rows may be strided.
// Tile: one thread per 16 bytes, as elementwise.cu has it.
// Numerics: f32, each result rounded once; tanhf of CUDA's library, of at most 2 ulp.
// Not measured yet. Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

template <class T, int W>
__global__ void soft_cap_forward(Rows<const T> x, Rows<T> y, float cap, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    float values[W];
    load(x.row(n) + c, values);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = cap * tanhf(values[i] / cap);
    store(y.row(n) + c, values);
  });
}

template <class T, int W>
__global__ void soft_cap_backward(Rows<const T> dy, Rows<const T> y, Rows<T> dx, float cap,
                                  Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    float gradient[W];
    float values[W];
    load(dy.row(n) + c, gradient);
    load(y.row(n) + c, values);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float share = values[i] / cap;
      gradient[i] *= 1.0f - share * share;
    }
    store(dx.row(n) + c, gradient);
  });
}

}  // namespace

void enqueue(const Context& context, const SoftCapForward& op) {
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.x, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    launch(chained(over(op.kName, context.stream, extent, W)), soft_cap_forward<T, W>,
           Rows<const T>(op.x), Rows<T>(op.y), static_cast<float>(op.cap), extent);
  });
}

void enqueue(const Context& context, const SoftCapBackward& op) {
  const Extent extent{op.dx.rows(), op.dx.shape[1]};
  const bool wide = is_wide(op.dx.dtype, extent.columns, {op.dy, op.y, op.dx});
  with_dtype_and_width(op.kName, op.dx.dtype, wide, [&]<class T, int W>() {
    launch(chained(over(op.kName, context.stream, extent, W)), soft_cap_backward<T, W>,
           Rows<const T>(op.dy), Rows<const T>(op.y), Rows<T>(op.dx), static_cast<float>(op.cap),
           extent);
  });
}

const void* soft_cap_module() { return reinterpret_cast<const void*>(&soft_cap_forward<float, 1>); }

}  // namespace strata::cuda
