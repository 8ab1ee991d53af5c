// This file declares what attention's families of kernels and CudaKernels share; enqueue(), which
// runs the operators, is in operators.h. Families compute the same operator, and attention_choice.h
// picks the first that takes it:
//
//   hopper    hopper_forward.cu and hopper_backward.cu: bf16, head dims 64, 128 and 256, on compute
//             capability 9.0, scores without a cap
//   portable  flash_forward.cu and flash_backward.cu: the same head dims, on the tensor cores of
//   any
//             GPU since 8.0; decode_attention.cu: one query a segment, over a cache;
//             decode_int8_attention.cu: the same over a cache of int8, which is an operator of its
//             own; attention_reference.cu and attention_reference_backward.cu: f32 and bf16, any
//             head dim up to 256, plain arithmetic
//
// cuDNN's attention (cudnn) is there if the config chooses it, for whole rows without a window.
// Shapes and formulas are those of strata/ops/attention.h.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "strata/ops/attention.h"
#include "strata/ops/backend.h"

namespace strata::cuda {

/// Counts the tiles that the blocks of the running kernel have taken. It lies in device memory and
/// is 0 before and after each kernel, so it serves one stream.
using TileCounter = unsigned;

/// Returns whether there are kernels on tensor cores for heads of so many elements.
[[nodiscard]] constexpr bool has_tensor_cores_for(std::int64_t head_dim) {
  return head_dim == 64 || head_dim == 128 || head_dim == 256;
}

/// What the launchers of one backend share.
struct AttentionBackend {
  AttentionKernels kernels;
  TileCounter* counter;
};

/// Launch the reference kernels whatever the shape. The rotation is left out.
void launch_reference_attention_forward(cudaStream_t stream, const AttentionForward& op);
void launch_reference_attention_backward(cudaStream_t stream, const AttentionBackward& op);
void launch_reference_attend_int8(cudaStream_t stream, const AttendInt8Kv& op);

/// Returns the sm_90a kernels if the current device can run them, else nothing.
[[nodiscard]] std::vector<const void*> hopper_modules();

}  // namespace strata::cuda
