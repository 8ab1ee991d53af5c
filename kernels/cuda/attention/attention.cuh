// This file declares attention on CUDA, as CudaKernels calls it and as the families of kernels see
// each other. Families of kernels compute the same operator, and the launchers pick the first that
// takes it:
//
//   hopper    hopper_forward.cu and hopper_backward.cu: bf16, head dims 64 and 128, on compute
//             capability 9.0
//   portable  flash_forward.cu and flash_backward.cu: the same on the tensor cores of any GPU since
//             8.0; attention_reference.cu: f32 and bf16, any head dim up to 256, plain arithmetic
//
// cuDNN's attention (cudnn) is chosen by the config alone. Shapes and formulas are those of
// strata/ops/attention.h.

#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "strata/ops/attention.h"
#include "strata/ops/backend.h"

namespace strata::cuda {

/// Counts the tiles that the blocks of the running kernel have taken. It lies in device memory and
/// is 0 before and after each kernel, so it serves one stream.
using TileCounter = unsigned;

/// What the launchers of one backend share.
struct AttentionBackend {
  AttentionKernels kernels;
  TileCounter* counter;
};

/// Launch on `stream` and never block. They throw BackendError for dtypes and head dims that no
/// kernel has, and for a scale that is not positive.
void launch_attention_forward(cudaStream_t stream, const AttentionForward& op,
                              const AttentionBackend& backend);
void launch_attention_backward(cudaStream_t stream, const AttentionBackward& op,
                               const AttentionBackend& backend);

/// Turns op.dq and op.dk back in place if op has a rotation. Kernels that leave that out need it.
void launch_rotation_backward(cudaStream_t stream, const AttentionBackward& op);

/// Launch the reference kernels whatever the shape. The rotation is left out.
void launch_reference_attention_forward(cudaStream_t stream, const AttentionForward& op);
void launch_reference_attention_backward(cudaStream_t stream, const AttentionBackward& op);

/// Each returns one kernel of a file, by which CUDA finds the file's module to load it at start-up.
[[nodiscard]] const void* flash_forward_module();
[[nodiscard]] const void* flash_backward_module();
[[nodiscard]] const void* attention_delta_module();
[[nodiscard]] const void* attention_reference_module();
/// Returns the sm_90a kernels if the current device can run them, else nothing.
[[nodiscard]] std::vector<const void*> hopper_modules();

}  // namespace strata::cuda
