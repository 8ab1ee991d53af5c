// This file says what CudaKernels does with an operator: it finds the stream, refuses the lanes
// that the operator may not run on, and calls the family's launch (operators.h,
// attention/attention.cuh, products/matmul.h). It also loads the modules of all kernels when it is
// made, since CUDA would else load them, and take memory for them, at their first launch.

#include "kernels/cuda/cuda_kernels.h"

#include <string>
#include <string_view>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/operators.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_stream.h"
#include "src/device/cuda/memory.h"
#include "strata/base/error.h"

namespace strata {

namespace {

void require_compute_lane(const Stream& stream, std::string_view name) {
  if (stream.lane() == Lane::kCompute) return;
  throw BackendError("operator " + std::string(name) +
                     ": runs on the compute lane only (it has one workspace), not on " +
                     std::string(name_of(stream.lane())));
}

}  // namespace

CudaKernels::CudaKernels(const cuda::Driver& driver, const BackendOptions& options)
    : tile_counter_(cuda::allocate_device(sizeof(cuda::TileCounter))),
      attention_{options.attention, reinterpret_cast<cuda::TileCounter*>(tile_counter_->data())},
      matmul_(options.matmul_workspace_bytes) {
  STRATA_CUDA_CHECK(cudaMemset(tile_counter_->data(), 0, sizeof(cuda::TileCounter)));
  STRATA_CUDA_CHECK(cudaDeviceSynchronize());
  if (options.attention == AttentionKernels::kCudnn)
    cudnn_ = std::make_unique<cuda::CudnnAttention>();
  for (const void* kernel :
       {cuda::embedding_module(), cuda::norm_module(), cuda::norm_backward_module(),
        cuda::rope_module(), cuda::swiglu_module(), cuda::elementwise_module(),
        cuda::cross_entropy_module(), cuda::adamw_module(), cuda::squared_norm_module(),
        cuda::plain_matmul_module(), cuda::quantize_module(), cuda::flash_forward_module(),
        cuda::flash_backward_module(), cuda::attention_delta_module(),
        cuda::attention_reference_module()}) {
    cuda::load_module_of(driver, kernel);
  }
  for (const void* kernel : cuda::hopper_modules()) cuda::load_module_of(driver, kernel);
}

void CudaKernels::prepare(const AttentionForward& op) {
  if (cudnn_) cudnn_->prepare(op);
}
void CudaKernels::prepare(const AttentionBackward& op) {
  if (cudnn_) cudnn_->prepare(op);
}

void CudaKernels::launch(Stream& stream, const EmbeddingForward& op) {
  cuda::launch_embedding_forward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const EmbeddingBackward& op) {
  cuda::launch_embedding_backward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const RmsNormForward& op) {
  cuda::launch_rmsnorm_forward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const RmsNormBackward& op) {
  cuda::launch_rmsnorm_backward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const Rope& op) {
  cuda::launch_rope(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const AttentionForward& op) {
  require_compute_lane(stream, AttentionForward::kName);
  if (!cudnn_) return cuda::launch_attention_forward(native_stream(stream), op, attention_);
  cudnn_->forward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const AttentionBackward& op) {
  require_compute_lane(stream, AttentionBackward::kName);
  if (!cudnn_) return cuda::launch_attention_backward(native_stream(stream), op, attention_);
  cudnn_->backward(native_stream(stream), op);
  cuda::launch_rotation_backward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const SwigluForward& op) {
  cuda::launch_swiglu_forward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const SwigluBackward& op) {
  cuda::launch_swiglu_backward(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const ResidualAdd& op) {
  cuda::launch_residual_add(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const Accumulate& op) {
  cuda::launch_accumulate(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const Cast& op) {
  cuda::launch_cast(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const Fill& op) {
  cuda::launch_fill(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const CrossEntropy& op) {
  cuda::launch_cross_entropy(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const Matmul& op) {
  require_compute_lane(stream, Matmul::kName);
  matmul_.launch(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const SquaredNorm& op) {
  cuda::launch_squared_norm(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const CastSquaredNorm& op) {
  cuda::launch_cast_squared_norm(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const AdamW& op) {
  cuda::launch_adamw(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const QuantizeRows& op) {
  cuda::launch_quantize_rows(native_stream(stream), op);
}
void CudaKernels::launch(Stream& stream, const DequantizeRows& op) {
  cuda::launch_dequantize_rows(native_stream(stream), op);
}

}  // namespace strata
