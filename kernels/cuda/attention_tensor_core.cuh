#pragma once

// What launchers share of the tensor-core attention kernels.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "strata/ops/attention.h"

namespace strata::cuda {

/// True if the current device gives one block this much shared memory.
[[nodiscard]] bool shared_memory_holds(std::size_t bytes);
/// True if a multiprocessor of the current device has shared memory for two blocks of this much.
[[nodiscard]] bool two_blocks_fit(std::size_t bytes_each);

// Both need bf16, head dim 64 or 128, and rows that begin at multiples of 16 bytes.
void launch_flash_forward(cudaStream_t stream, const AttentionForward& op);
void launch_flash_backward(cudaStream_t stream, const AttentionBackward& op);

}  // namespace strata::cuda
