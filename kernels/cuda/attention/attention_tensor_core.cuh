// This file declares what attention's launchers share of the kernels on the tensor cores:
// attention.cu picks among them, and the backwards launch delta and the rounding of dq. All launch
// on a stream, never block, and expect that attention.cu has checked dtype, head dim and alignment.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_choice.h"
#include "strata/ops/attention.h"
#include "strata/ops/fused_attend.h"

namespace strata::cuda {

// These run on any GPU since 8.0. Both need bf16, head dim 64, 128 or 256, and rows that begin at
// multiples of 16 bytes, and leave out the rotation.
void launch_flash_forward(cudaStream_t stream, const AttentionForward& op);
void launch_flash_backward(cudaStream_t stream, const AttentionBackward& op);
/// Need the same, and op.parts.
void launch_decode_attention(cudaStream_t stream, const AttentionForward& op);
void launch_fused_attend(cudaStream_t stream, const FusedAttend& op);

// These need the same, compute capability 9.0, and a table of at most kMostHopperSegments and
// kMostHopperTableRows.
void launch_hopper_forward(cudaStream_t stream, const AttentionForward& op, TileCounter* counter);
/// Runs only segments that attend to themselves. It turns dq and dk back itself; a rotation's
/// tables must begin at multiples of 16 bytes.
void launch_hopper_backward(cudaStream_t stream, const AttentionBackward& op, TileCounter* counter);
[[nodiscard]] const void* hopper_backward_module();
/// Says whether this program has the sm_90a kernels and the current device can run them.
[[nodiscard]] bool hopper_available();

/// Computes op.delta = rowsum(op.d_o * op.o), and clears op.dq_sum if it is given.
void launch_attention_delta(cudaStream_t stream, const AttentionBackward& op);
/// Computes op.dq = op.scale * op.dq_sum, turned back if there is a rotation.
void launch_round_dq(cudaStream_t stream, const AttentionBackward& op);

}  // namespace strata::cuda
