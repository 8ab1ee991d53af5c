// This file declares what each kernel file gives to CudaKernels: launches of its operators on a
// stream (attention and matrix products have headers of their own), and one of its kernels, by
// which CUDA finds the file's module to load it at start-up. The launches take operators that have
// passed check(), never block and allocate nothing. They throw BackendError, naming the operator,
// for a dtype that CUDA does not run.

#pragma once

#include <cuda_runtime_api.h>

#include "strata/ops/kernels.h"

namespace strata::cuda {

void launch_embedding_forward(cudaStream_t stream, const EmbeddingForward& op);
void launch_embedding_backward(cudaStream_t stream, const EmbeddingBackward& op);
[[nodiscard]] const void* embedding_module();

void launch_rmsnorm_forward(cudaStream_t stream, const RmsNormForward& op);
[[nodiscard]] const void* norm_module();

void launch_rmsnorm_backward(cudaStream_t stream, const RmsNormBackward& op);
[[nodiscard]] const void* norm_backward_module();

void launch_rope(cudaStream_t stream, const Rope& op);
[[nodiscard]] const void* rope_module();

void launch_swiglu_forward(cudaStream_t stream, const SwigluForward& op);
void launch_swiglu_backward(cudaStream_t stream, const SwigluBackward& op);
[[nodiscard]] const void* swiglu_module();

void launch_residual_add(cudaStream_t stream, const ResidualAdd& op);
void launch_accumulate(cudaStream_t stream, const Accumulate& op);
void launch_cast(cudaStream_t stream, const Cast& op);
void launch_fill(cudaStream_t stream, const Fill& op);
[[nodiscard]] const void* elementwise_module();

void launch_cross_entropy(cudaStream_t stream, const CrossEntropy& op);
[[nodiscard]] const void* cross_entropy_module();

void launch_squared_norm(cudaStream_t stream, const SquaredNorm& op);
void launch_cast_squared_norm(cudaStream_t stream, const CastSquaredNorm& op);
[[nodiscard]] const void* squared_norm_module();

void launch_adamw(cudaStream_t stream, const AdamW& op);
[[nodiscard]] const void* adamw_module();

void launch_quantize_rows(cudaStream_t stream, const QuantizeRows& op);
void launch_dequantize_rows(cudaStream_t stream, const DequantizeRows& op);
[[nodiscard]] const void* quantize_module();

/// Runs the products that cuBLASLt has no algorithm for, and those with K = 0, at any size and
/// slowly.
void launch_plain_matmul(cudaStream_t stream, const Matmul& op);
[[nodiscard]] const void* plain_matmul_module();

}  // namespace strata::cuda
