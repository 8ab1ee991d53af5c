// This file has the arithmetic of SwiGLU's forward, for the kernels that must have the same bits:
// swiglu.cu and the one that fuses it into a product.

#pragma once

#include "strata/ops/swiglu.h"

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

// GELU by its tanh is x * sigmoid(slope * (x + cubic * x^3)).
inline constexpr float kTanhSlope = 1.5957691216057308f;  // 2 sqrt(2 / pi)
inline constexpr float kTanhCubic = 0.044715f;

/// Returns s with activation(x) = x * s.
template <class T, Activation kActivation>
__device__ __forceinline__ float opening(float x) {
  if constexpr (kActivation == Activation::kSilu) {
    return sigmoid<T>(x);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    return sigmoid<T>(kTanhSlope * x * (1.0f + kTanhCubic * x * x));
  } else {
    return 0.5f * erfcf(x * -0.70710678118654752f);
  }
}

/// Returns the gradient of a gate x, where `d` is that of what it opened to, and s is opening(x).
template <Activation kActivation>
__device__ __forceinline__ float gate_gradient(float d, float x, float s) {
  if constexpr (kActivation == Activation::kSilu) {
    return d * s * (1.0f + x * (1.0f - s));
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    const float slope = kTanhSlope * (1.0f + 3.0f * kTanhCubic * x * x);
    return d * s * (1.0f + x * (1.0f - s) * slope);
  } else {
    const float density = 0.39894228040143268f * expf(-0.5f * x * x);
    return d * (s + x * density);
  }
}

/// gate = activation(gate) * up
template <class T, Activation kActivation, int W>
__device__ __forceinline__ void swiglu(float (&gate)[W], const float (&up)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) gate[i] = gate[i] * opening<T, kActivation>(gate[i]) * up[i];
}

}  // namespace strata::cuda
