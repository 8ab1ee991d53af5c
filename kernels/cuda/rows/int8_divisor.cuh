// This file has the scale of what is rounded to int8, and the division by it, for the kernels of
// rows (quantize.cu) and of keys and values (int8_kv.cu). The bits are those of
// strata/ops/quantize.h.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/common/vector.cuh"
#include "strata/ops/quantize.h"

namespace strata::cuda {

/// The factor of a row, and how its elements are divided by it.
struct Divisor {
  using Code = std::int8_t;
  static constexpr bool kReadSoon = false;

  float scale;
  float inverse;

  /// Makes the divisor of a row from its largest magnitude, given as bits.
  __device__ static Divisor of(unsigned largest) {
    constexpr unsigned kInfinity = 0x7f800000u;
    constexpr unsigned kQuietNan = 0x7fc00000u;
    const float scale = largest < kInfinity ? __fdiv_rn(__uint_as_float(largest),
                                                        static_cast<float>(QuantizeRows::kLevels))
                                            : __uint_as_float(kQuietNan);
    return {.scale = scale, .inverse = __fdiv_rn(1.0f, scale)};
  }

  __device__ static float number(Code level) { return static_cast<float>(level); }

  /// Returns x / scale to the nearest integer, as division has it.
  __device__ int divided(float x) const {
    if (!(scale > 0.0f)) return 0;
    const int level = __float2int_rn(__fdiv_rn(x, scale));
    return min(max(level, -QuantizeRows::kLevels), QuantizeRows::kLevels);
  }

  /// Returns the same for all elements of a piece, by products where these tell. If `scale` is a
  /// normal number no quotient exceeds 127 by more than rounding, and a product with the inverse is
  /// off by less than 128 * 2^-24, so it is on the same side of a half unless it comes close to
  /// one.
  template <int W>
  __device__ __forceinline__ Vector<std::int8_t, W> levels(const float (&x)[W]) const {
    // An f32 of this size has no fraction: adding it rounds, and the low byte is the sum's.
    constexpr float kWhole = 0x1.8p23f;
    constexpr float kSurelyNearest = 0.5f - 0x1p-16f;
    constexpr float kSmallestNormal = 0x1p-126f;
    Vector<std::int8_t, W> levels;
    float farthest = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float rounded = __fmaf_rn(x[i], inverse, kWhole);
      levels.values[i] = static_cast<std::int8_t>(__float_as_uint(rounded) & 0xffu);
      const float distance = __fmaf_rn(x[i], inverse, kWhole - rounded);
      farthest = fmaxf(farthest, fabsf(distance));
    }
    if (!(farthest < kSurelyNearest) || !(scale >= kSmallestNormal)) {
#pragma unroll
      for (int i = 0; i < W; ++i) levels.values[i] = static_cast<std::int8_t>(divided(x[i]));
    }
    return levels;
  }
};

}  // namespace strata::cuda
