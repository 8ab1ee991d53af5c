// This file has the largest magnitude of numbers, by their bits, for the kernels that round rows to
// int8 and e4m3. The bits of magnitudes are in the order of the numbers, so NaNs come out on top,
// and the order in which they are compared does not matter.

#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda {

inline constexpr unsigned kMagnitude = 0x7fffffffu;
inline constexpr unsigned kMagnitudes = 0x7fff7fffu;  ///< the magnitudes of two bf16

/// A number that a warp can exchange.
struct Largest {
  unsigned bits;
  __device__ static Largest shuffle(Largest x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.bits, distance)};
  }
};

struct TakeLarger {
  __device__ Largest operator()(Largest a, Largest b) const { return {max(a.bits, b.bits)}; }
};

/// Returns the bits of the largest magnitude as f32.
template <class T, int W>
__device__ __forceinline__ unsigned largest_magnitude(const Packed<T, W>& x) {
  if constexpr (sizeof(T) == sizeof(__nv_bfloat16) && W > 1) {
    unsigned pair = 0;
#pragma unroll
    for (const unsigned word : x.words) pair = __vmaxu2(pair, word & kMagnitudes);
    return max(pair << 16, pair & 0xffff0000u);
  } else {
    float values[W];
    unpack(x, values);
    unsigned largest = 0;
#pragma unroll
    for (const float value : values) largest = max(largest, __float_as_uint(value) & kMagnitude);
    return largest;
  }
}

}  // namespace strata::cuda
