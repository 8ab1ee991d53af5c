// This file computes the matrix products that cuBLASLt has no algorithm for, and those with K = 0;
// MatmulPlans launches it. It is right at any size and not fast; results repeat bit for bit.
//
// out[m, n] (+)= alpha * sum over k of a(m, k) b(k, n) (+ bias[n]).
// Shapes: any, rows may be strided.
// Tile: 16 x 16 outputs a block, one a thread, through shared memory.
// Numerics: f32 fma in ascending k from zero, times alpha, then added to `out` if it accumulates,
// or to a bias; rounded once.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

constexpr int kTile = 16;

/// An operand as (m, k) or (k, n) by strides, so that one kernel reads all layouts.
template <class T>
struct Operand {
  const T* data;
  std::int64_t row_step;
  std::int64_t column_step;
  [[nodiscard]] __device__ float at(std::int64_t row, std::int64_t column) const {
    return widen(data[row * row_step + column * column_step]);
  }
};

template <class T>
Operand<T> operand(const ConstTensorView& view, bool transposed) {
  const auto* values = data<T>(view);
  if (transposed) return {values, 1, view.row_stride};
  return {values, view.row_stride, 1};
}

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool accumulate;
  float alpha;
};

/// `bias` may be null.
template <class T, class Out>
__global__ void plain_matmul(Operand<T> a, Operand<T> b, Rows<Out> out, const T* bias,
                             Sizes sizes) {
  __shared__ float tile_a[kTile][kTile + 1];
  __shared__ float tile_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kTile + x;
  for (std::int64_t row = blockIdx.y; row * kTile < sizes.m; row += gridDim.y) {
    const std::int64_t m = row * kTile + y;
    float sum = 0;
    for (std::int64_t k = 0; k < sizes.k; k += kTile) {
      tile_a[y][x] = m < sizes.m && k + x < sizes.k ? a.at(m, k + x) : 0.0f;
      tile_b[y][x] = n < sizes.n && k + y < sizes.k ? b.at(k + y, n) : 0.0f;
      __syncthreads();
      for (int i = 0; i < kTile; ++i) sum = fmaf(tile_a[y][i], tile_b[i][x], sum);
      __syncthreads();
    }
    if (m >= sizes.m || n >= sizes.n) continue;
    Out& to = out.row(m)[n];
    if (sizes.accumulate) {
      to = narrow_to<Out>(fmaf(sum, sizes.alpha, widen(to)));
    } else if (bias != nullptr) {
      to = narrow_to<Out>(fmaf(sum, sizes.alpha, widen(bias[n])));
    } else {
      to = narrow_to<Out>(sum * sizes.alpha);
    }
  }
}

}  // namespace

void launch_plain_matmul(cudaStream_t stream, const Matmul& op) {
  constexpr std::int64_t kMostGridRows = 65535;
  const Sizes sizes{.m = op.m(),
                    .n = op.n(),
                    .k = op.k(),
                    .accumulate = op.update == MatmulUpdate::kAccumulate,
                    .alpha = static_cast<float>(op.alpha)};
  const auto tiles_m = std::min<std::int64_t>(blocks_for(sizes.m, kTile), kMostGridRows);
  // Without K nothing is read, of codes in e4m3 either; other products of these do not come here.
  const DType in = op.k() == 0 ? op.out.dtype : op.a.dtype;
  with_dtype(op.kName, in, [&]<class T>() {
    with_dtype(op.kName, op.out.dtype, [&]<class Out>() {
      launch({.name = op.kName,
              .stream = stream,
              .grid = dim3(blocks_for(sizes.n, kTile), static_cast<unsigned>(tiles_m)),
              .block = dim3(kTile, kTile)},
             plain_matmul<T, Out>, operand<T>(op.a, op.layout == MatmulLayout::kTN),
             operand<T>(op.b, op.layout == MatmulLayout::kNT), Rows<Out>(op.out), data<T>(op.bias),
             sizes);
    });
  });
}

const void* plain_matmul_module() {
  return reinterpret_cast<const void*>(&plain_matmul<float, float>);
}

}  // namespace strata::cuda
