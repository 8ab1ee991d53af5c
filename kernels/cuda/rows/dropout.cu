// This file computes inverted dropout on CUDA; CudaKernels launches it through operators.h. It
// takes bf16 and f32, rows of any width and alignment, and gives the bits of the CPU's kernel.
//
// y = fma(keep(n, c) * x, 1 / (1 - rate), added), or `added` where an element is dropped.
//
// Shapes: x, added, y [N, C], rows may be strided.
// Tile: one thread per 16 bytes, as elementwise.cu has it. A piece draws the key of its row anew:
// some ten multiplications of 64 bits beside those of 32 that each element takes.
// Numerics: one fma in f32, rounded once, to nearest even; bitwise equal to the CPU.
// Not measured yet. Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/random.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

/// What all rows have in common.
struct Mask {
  std::uint64_t stream;  ///< the part of the keys that all rows share
  std::uint64_t first;
  std::uint32_t threshold;
  float scale;
};

template <class T, int W>
__global__ void dropout(Rows<const T> x, Rows<const T> added, Rows<T> y, Mask mask, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const std::uint64_t key = mix64(mask.stream ^ (mask.first + static_cast<std::uint64_t>(n)));
    float values[W];
    float rest[W] = {};
    load(x.row(n) + c, values);
    if (added.data != nullptr) load(added.row(n) + c, rest);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const bool kept = bits_of(key, static_cast<std::uint32_t>(c + i)) >= mask.threshold;
      values[i] = kept ? fmaf(values[i], mask.scale, rest[i]) : rest[i];
    }
    store(y.row(n) + c, values);
  });
}

}  // namespace

void enqueue(const Context& context, const Dropout& op) {
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const Mask mask{.stream = mix64(mix64(op.mask.seed) ^ op.mask.stream),
                  .first = static_cast<std::uint64_t>(op.mask.first),
                  .threshold = op.threshold(),
                  .scale = static_cast<float>(1 / (1 - op.mask.rate))};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.x, op.added, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    launch(chained(over(op.kName, context.stream, extent, W)), dropout<T, W>, Rows<const T>(op.x),
           Rows<const T>(op.added), Rows<T>(op.y), mask, extent);
  });
}

const void* dropout_module() { return reinterpret_cast<const void*>(&dropout<float, 1>); }

}  // namespace strata::cuda
