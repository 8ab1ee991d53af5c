#pragma once

// What launchers share of the tensor-core attention kernels.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/attention/attention.cuh"
#include "strata/ops/attention.h"

namespace strata::cuda {

// Both need bf16, head dim 64 or 128, and rows that begin at multiples of 16 bytes.
void launch_flash_forward(cudaStream_t stream, const AttentionForward& op);
void launch_flash_backward(cudaStream_t stream, const AttentionBackward& op);

// The same for devices of compute capability 9.0, and tables of up to kMostHopperSegments.
inline constexpr std::int64_t kMostHopperSegments = 32 * 1024;
void launch_hopper_forward(cudaStream_t stream, const AttentionForward& op, TileCounter* counter);
/// Only for segments that attend to themselves. Turns dq and dk back itself; a rotation's tables
/// begin at multiples of 16 bytes.
void launch_hopper_backward(cudaStream_t stream, const AttentionBackward& op, TileCounter* counter);
[[nodiscard]] const void* hopper_backward_module();
/// Whether this program has them and the current device can run them.
[[nodiscard]] bool hopper_available();

/// op.delta = rowsum(op.d_o * op.o); clears op.dq_sum, if given.
void launch_attention_delta(cudaStream_t stream, const AttentionBackward& op);
/// op.dq = op.scale * op.dq_sum, turned back.
void launch_round_dq(cudaStream_t stream, const AttentionBackward& op);

}  // namespace strata::cuda
