// This file adds rows of partial sums to a gradient on CUDA, for the operators that partial_rows.h
// names.
//
// sum[c] += sum over r of partial[r, c].
//
// Tile: a block takes 32 columns, and each of its eight warps an equal run of rows.
// Numerics: f32, ascending rows within a run, then ascending runs: fixed for a given number of
// rows. Naive version: the loops over rows in kernels/cpu.

#include "kernels/cuda/rows/partial_rows.h"

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

constexpr int kSumColumns = 32;
constexpr int kSumParts = 8;

/// Each of kSumParts threads of a column adds an equal run of rows.
__global__ void add_rows(const float* partial, int rows, int columns, float* total) {
  __shared__ float part[kSumParts][kSumColumns];
  const int c = static_cast<int>(blockIdx.x) * kSumColumns + static_cast<int>(threadIdx.x);
  const int run = (rows + kSumParts - 1) / kSumParts;
  const int begin = static_cast<int>(threadIdx.y) * run;
  float sum = 0;
  if (c < columns) {
#pragma unroll 32
    for (int r = begin; r < min(begin + run, rows); ++r) {
      sum += partial[static_cast<std::int64_t>(r) * columns + c];
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (int i = 1; i < kSumParts; ++i) sum += part[i][threadIdx.x];
  total[c] += sum;
}

}  // namespace

void add_partial_rows(std::string_view name, cudaStream_t stream, const PartialRows& partial,
                      float* sum) {
  const Launch where{.name = name,
                     .stream = stream,
                     .grid = blocks_for(partial.columns, kSumColumns),
                     .block = dim3(kSumColumns, kSumParts)};
  launch(where, add_rows, partial.data, partial.rows, static_cast<int>(partial.columns), sum);
}

const void* partial_rows_module() { return reinterpret_cast<const void*>(&add_rows); }

}  // namespace strata::cuda
