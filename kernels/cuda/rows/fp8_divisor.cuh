// This file has the scale of what is rounded to e4m3, and the division by it, for the kernels of
// rows (quantize.cu and those that quantise what they compute) and of columns (fp8_columns.cu). The
// bits are those of strata/ops/fp8.h.

#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"
#include "strata/ops/fp8.h"

namespace strata::cuda {

/// Returns two numbers in e4m3, rounded to nearest even; the first is in the low byte.
__device__ __forceinline__ unsigned fp8_pair(float first, float second) {
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
}

/// Returns four numbers in e4m3; the first is in the lowest byte.
__device__ __forceinline__ unsigned fp8_word(float a, float b, float c, float d) {
  return fp8_pair(a, b) | fp8_pair(c, d) << 16;
}

/// The factor of a row, and how its elements are divided by it.
struct Fp8Divisor {
  using Code = std::uint8_t;
  static constexpr bool kReadSoon = true;  ///< by a product

  float scale;
  float inverse;  ///< exact: a power of two that is a normal number, or NaN

  __device__ static Fp8Divisor by(float scale) {
    return {.scale = scale, .inverse = __fdiv_rn(1.0f, scale)};
  }
  /// Makes the divisor of a row from its largest magnitude, given as bits.
  __device__ static Fp8Divisor of(unsigned largest) { return by(fp8_scale(largest)); }

  /// Returns the number of a code, which f16 has.
  __device__ static float number(Code code) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
  }

  /// Returns the codes of a piece. A product with the inverse is exact, but for numbers so small
  /// that they become zeros.
  template <int W>
  __device__ __forceinline__ Vector<Code, W> levels(const float (&x)[W]) const {
    Vector<Code, W> codes;
    if constexpr (W == 1) {
      codes.values[0] = __nv_cvt_float_to_fp8(x[0] * inverse, __NV_SATFINITE, __NV_E4M3);
    } else {
      Vector<unsigned, W / 4> words;
#pragma unroll
      for (int i = 0; i < W / 4; ++i) {
        const float* const x4 = x + 4 * i;
        words.values[i] =
            fp8_word(x4[0] * inverse, x4[1] * inverse, x4[2] * inverse, x4[3] * inverse);
      }
      codes = __builtin_bit_cast(Vector<Code, W>, words);
    }
    return codes;
  }
};

/// Returns the divisor of a row from the largest magnitude that each thread of the block has seen,
/// and writes its scale. `scratch` holds kMostWarps entries and may be used again after the next
/// barrier.
__device__ __forceinline__ Fp8Divisor divisor_of_row(unsigned largest, Largest* scratch,
                                                     float* scale) {
  const Largest of_row = block_reduce_once(Largest{largest}, Largest{0}, scratch, TakeLarger{});
  const auto divisor = Fp8Divisor::of(of_row.bits);
  if (threadIdx.x == 0) *scale = divisor.scale;
  return divisor;
}

/// Writes W elements, which a thread has kept, as codes.
template <class T, int W>
__device__ __forceinline__ void store_codes(std::uint8_t* to, const Packed<T, W>& from,
                                            const Fp8Divisor& divisor) {
  float values[W];
  unpack(from, values);
  store_raw(to, divisor.levels(values));
}

}  // namespace strata::cuda
