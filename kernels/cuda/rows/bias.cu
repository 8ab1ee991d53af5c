// This file adds biases to rows and sums their gradients on CUDA; CudaKernels launches both through
// operators.h. It takes bf16 and f32, rows of any width and alignment, and gives the same bits in
// every run; the gradient's operator brings the workspace.
//
// y = x + bias;  d_bias += sum over rows of dy.
//
// Shapes: x, dy, y [N, C], rows may be strided; bias and d_bias [C].
// Tile: adding takes one thread per 16 bytes. For the gradient, a block takes 32 pieces of 16 bytes
// of the columns and one of at most 64 runs of rows; each of its eight warps adds every eighth row.
// The sums of the blocks go to the workspace, and add_partial_rows() adds them.
// Numerics: f32. y is rounded once and bitwise equal to the CPU's. d_bias: ascending rows of a
// warp, then ascending warps, then partial_rows.cu: fixed for given N, and another order than the
// CPU's. Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/partial_rows.h"

namespace strata::cuda {
namespace {

template <class T, int W>
__global__ void bias_add(Rows<const T> x, const T* bias, Rows<T> y, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    float values[W];
    float added[W];
    load(x.row(n) + c, values);
    load(bias + c, added);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] += added[i];
    store(y.row(n) + c, values);
  });
}

constexpr int kPieces = 32;  ///< of the columns of a block, one a lane
constexpr int kWarps = 8;

/// Which rows the blocks of a column of the grid add: block y takes the y-th run.
struct RowRuns {
  std::int64_t rows;
  std::int64_t rows_per_run;
  std::int64_t columns;
};

/// Writes the sums of this block's rows to row blockIdx.y of the workspace.
template <class T, int W>
__global__ void __launch_bounds__(kPieces* kWarps)
    bias_backward(Rows<const T> dy, RowRuns runs, float* workspace) {
  __shared__ float sums[kWarps][W][kPieces];
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kPieces + threadIdx.x) * W;
  const std::int64_t begin = blockIdx.y * runs.rows_per_run;
  const std::int64_t end = min(begin + runs.rows_per_run, runs.rows);
  float sum[W] = {};
  if (c < runs.columns) {
#pragma unroll 4
    for (std::int64_t n = begin + threadIdx.y; n < end; n += kWarps) {
      float values[W];
      load(dy.row(n) + c, values);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) sums[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || c >= runs.columns) return;
  for (int warp = 1; warp < kWarps; ++warp) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += sums[warp][i][threadIdx.x];
  }
  float* to = workspace + blockIdx.y * runs.columns + c;
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = sum[i];
}

}  // namespace

void enqueue(const Context& context, const BiasAdd& op) {
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.x, op.bias, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    launch(chained(over(op.kName, context.stream, extent, W)), bias_add<T, W>, Rows<const T>(op.x),
           data<T>(op.bias), Rows<T>(op.y), extent);
  });
}

void enqueue(const Context& context, const BiasBackward& op) {
  const std::int64_t rows = op.dy.rows();
  const std::int64_t columns = op.dy.shape[1];
  if (rows == 0 || columns == 0) return;
  const std::int64_t per_run =
      (rows + BiasBackward::kWorkspaceRows - 1) / BiasBackward::kWorkspaceRows;
  const unsigned runs = blocks_for(rows, per_run);
  const bool wide = is_wide(op.dy.dtype, columns, {op.dy});
  with_dtype_and_width(op.kName, op.dy.dtype, wide, [&]<class T, int W>() {
    const Launch where{.name = op.kName,
                       .stream = context.stream,
                       .grid = dim3(blocks_for(columns, kPieces * W), runs),
                       .block = dim3(kPieces, kWarps)};
    launch(where, bias_backward<T, W>, Rows<const T>(op.dy),
           RowRuns{.rows = rows, .rows_per_run = per_run, .columns = columns},
           data<float>(op.workspace));
  });
  add_partial_rows(
      op.kName, context.stream,
      {.data = data<float>(op.workspace), .rows = static_cast<int>(runs), .columns = columns},
      data<float>(op.d_bias));
}

const void* bias_module() { return reinterpret_cast<const void*>(&bias_add<float, 1>); }

}  // namespace strata::cuda
