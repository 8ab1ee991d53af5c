// This file has the arithmetic of SwiGLU's forward, for the kernels that must have the same bits:
// swiglu.cu and the one that fuses it into a product.

#pragma once

namespace strata::cuda {

/// T is the dtype that the numbers come from and go to. In bf16 the exponential and the division
/// are the fast ones (a few f32 ulp: far below bf16).
template <class T>
__device__ __forceinline__ float sigmoid(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return 1.0f / (1.0f + expf(-x));
  } else {
    return __fdividef(1.0f, 1.0f + __expf(-x));
  }
}

/// gate = silu(gate) * up
template <class T, int W>
__device__ __forceinline__ void swiglu(float (&gate)[W], const float (&up)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) gate[i] = gate[i] * sigmoid<T>(gate[i]) * up[i];
}

}  // namespace strata::cuda
