#pragma once

// Attention on CUDA. Families of kernels compute the same operator:
//   hopper_forward.cu, hopper_backward.cu   bf16, head dims 64 and 128, compute capability 9.0
//   flash_forward.cu, flash_backward.cu     the same on the tensor cores of any GPU since 8.0
//   attention_reference.cu                  f32 and bf16, any head dim up to 256, plain arithmetic
// The launchers pick the first that takes the operator.

#include <cuda_runtime_api.h>

#include <vector>

#include "strata/ops/attention.h"
#include "strata/ops/backend.h"

namespace strata::cuda {

/// How many tiles of the running kernel were handed out to its blocks. In device memory, 0 before
/// and after each kernel, so it serves one stream.
using TileCounter = unsigned;

/// What the launchers of a backend share.
struct AttentionBackend {
  AttentionKernels kernels;
  TileCounter* counter;
};

/// Launch on `stream`; they never block. Throw BackendError for dtypes and head dims that no kernel
/// has, and for a scale that is not positive.
void launch_attention_forward(cudaStream_t stream, const AttentionForward& op,
                              const AttentionBackend& backend);
void launch_attention_backward(cudaStream_t stream, const AttentionBackward& op,
                               const AttentionBackend& backend);

/// Turns op.dq and op.dk back in place if op has a rotation: for kernels that leave that out.
void launch_rotation_backward(cudaStream_t stream, const AttentionBackward& op);

/// The same through the reference kernels, whatever the shape, and without the rotation.
void launch_reference_attention_forward(cudaStream_t stream, const AttentionForward& op);
void launch_reference_attention_backward(cudaStream_t stream, const AttentionBackward& op);

/// One kernel of each file, by which CUDA finds the file's module to load it at start-up.
[[nodiscard]] const void* flash_forward_module();
[[nodiscard]] const void* flash_backward_module();
[[nodiscard]] const void* attention_delta_module();
[[nodiscard]] const void* attention_reference_module();
/// Those that the current device can run.
[[nodiscard]] std::vector<const void*> hopper_modules();

}  // namespace strata::cuda
