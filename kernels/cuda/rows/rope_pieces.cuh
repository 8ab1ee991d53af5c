// This file has the arithmetic of the rotary embedding, for the kernels that must have the same
// bits: rope.cu, the one that also adds keys to a cache, and norms of heads.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda {

/// The angles of all positions, and those of the tokens.
struct RopeTables {
  const std::int32_t* positions;
  const float* cos;
  const float* sin;
  float sign;  ///< the sign of the angle
};

/// Returns one number of a pair, turned: own * cos + other * sin, where the first of a pair takes
/// -sin. The rounding of each step is written down, so no compiler chooses another one.
__device__ __forceinline__ float turned(float own, float cos, float other, float sin) {
  return __fmaf_rn(own, cos, __fmul_rn(other, sin));
}

/// The angles of W pairs of a row.
template <int W>
struct Angles {
  float cos[W];
  float sin[W];

  /// Loads the angles of pairs i, i + 1, ... of row n; a head has `half` pairs.
  __device__ __forceinline__ void load_from(const RopeTables& tables, std::int64_t n, int i,
                                            int half) {
    const std::int64_t angle = static_cast<std::int64_t>(tables.positions[n]) * half + i;
    load(tables.cos + angle, cos);
    load(tables.sin + angle, sin);
#pragma unroll
    for (float& s : sin) s *= tables.sign;
  }
  /// Turns the pairs (low, high).
  __device__ __forceinline__ void turn(float (&low)[W], float (&high)[W]) const {
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float rotated = turned(low[j], cos[j], high[j], -sin[j]);
      high[j] = turned(high[j], cos[j], low[j], sin[j]);
      low[j] = rotated;
    }
  }
};

/// Turns W pairs (low, high) of row n, of which the first is pair i of `half`.
template <int W>
__device__ __forceinline__ void rotate(const RopeTables& tables, std::int64_t n, int i, int half,
                                       float (&low)[W], float (&high)[W]) {
  Angles<W> angles;
  angles.load_from(tables, n, i, half);
  angles.turn(low, high);
}

}  // namespace strata::cuda
