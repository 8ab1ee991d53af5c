#pragma once

// What launchers share of the tensor-core attention kernels.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "strata/ops/attention.h"

namespace strata::cuda {

// Both need bf16, head dim 64 or 128, and rows that begin at multiples of 16 bytes.
void launch_flash_forward(cudaStream_t stream, const AttentionForward& op);
void launch_flash_backward(cudaStream_t stream, const AttentionBackward& op);

}  // namespace strata::cuda
