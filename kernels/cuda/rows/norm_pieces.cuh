// This file has the arithmetic of RMSNorm on W columns of a row, for the kernels that must have the
// same bits: norm.cu and the one that fuses a norm into a product.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda {

inline constexpr int kNormThreads = 256;  ///< at most

/// Returns by how many threads a row is added up: each adds every so many-th W columns, and then
/// they are added as block_sum does. A thread has at least two pieces: more is under way than with
/// one piece and twice the threads.
[[nodiscard]] inline unsigned norm_threads(std::int64_t columns, int w) {
  return whole_warps((columns + 2 * w - 1) / (2 * w), kNormThreads);
}

template <int W>
__device__ __forceinline__ void add_squares(const float (&s)[W], float& squares) {
#pragma unroll
  for (int i = 0; i < W; ++i) squares += s[i] * s[i];
}

/// Returns 1 / sqrt(mean + eps) of a row from the sum of its squares.
__device__ __forceinline__ float rstd_of(float squares, int columns, float eps) {
  return __frsqrt_rn(squares / static_cast<float>(columns) + eps);
}

/// Adds to weights what a norm adds to all of them.
template <int W>
__device__ __forceinline__ void add_offset(float (&weight)[W], float offset) {
#pragma unroll
  for (int i = 0; i < W; ++i) weight[i] += offset;
}

template <int W>
__device__ __forceinline__ void normalise(float (&s)[W], const float (&weight)[W], float rstd) {
#pragma unroll
  for (int i = 0; i < W; ++i) s[i] = s[i] * rstd * weight[i];
}

}  // namespace strata::cuda
