// This file lays out the grid of elementwise kernels: x runs over pieces of W columns, y over rows.
// Launches get it from over(), and their kernels walk it with for_each_piece(), so that rows and
// columns of any number are covered once.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/cuda/common/launch.cuh"

namespace strata::cuda {

/// Rows and columns that a kernel covers, in elements.
struct Extent {
  std::int64_t rows;
  std::int64_t columns;
};

/// The most threads of a block; four to eight blocks fill a multiprocessor.
inline constexpr int kElementwiseThreads = 256;
/// The largest grid in y; more rows are looped over.
inline constexpr std::int64_t kMostGridRows = 65535;

/// Returns the launch with one thread per W columns (W divides extent.columns).
[[nodiscard]] inline Launch over(std::string_view name, cudaStream_t stream, Extent extent, int w) {
  const std::int64_t pieces = extent.columns / w;
  // The blocks of a row are alike: 320 pieces are two blocks of 160 threads, not 256 and 64 of 256.
  const std::int64_t blocks = std::max(blocks_for(pieces, kElementwiseThreads), 1u);
  const unsigned threads = whole_warps((pieces + blocks - 1) / blocks, kElementwiseThreads);
  return {.name = name,
          .stream = stream,
          .grid = dim3(blocks_for(pieces, threads),
                       static_cast<unsigned>(std::min(extent.rows, kMostGridRows))),
          .block = threads};
}

/// Calls body(row, column) for the pieces of this thread.
template <int W, class Body>
__device__ __forceinline__ void for_each_piece(Extent extent, const Body& body) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * W;
  if (column >= extent.columns) return;
  for (std::int64_t row = blockIdx.y; row < extent.rows; row += gridDim.y) body(row, column);
}

}  // namespace strata::cuda
