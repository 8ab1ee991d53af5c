// Picks the kernels for an attention operator.

#include "kernels/cuda/attention.cuh"

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/cuda/attention_tensor_core.cuh"
#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

[[nodiscard]] int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// Throws BackendError if no kernel computes the operator.
template <class O>
void check_supported(const O& op) {
  const auto fail = [](const std::string& problem) {
    throw BackendError(std::string(O::kName) + ": " + problem);
  };
  if (op.q.dtype != DType::kBF16 && op.q.dtype != DType::kF32) {
    fail("the cuda backend has no attention in " + std::string(name_of(op.q.dtype)) +
         "; use bf16 or f32");
  }
  constexpr std::int64_t kLargestHeadDim = 256;
  if (op.q.shape[2] > kLargestHeadDim) {
    fail("the cuda backend has head dims up to 256, not " + std::to_string(op.q.shape[2]));
  }
  if (!(op.scale > 0)) fail("scale must be positive, not " + std::to_string(op.scale));
}

/// The tensor-core kernels copy 16 bytes at a time.
[[nodiscard]] bool suits_tensor_cores(std::initializer_list<ConstTensorView> tensors) {
  constexpr std::uintptr_t kCopyBytes = 16;
  for (const ConstTensorView& view : tensors) {
    const std::int64_t head_dim = view.shape[2];
    if (view.dtype != DType::kBF16 || (head_dim != 64 && head_dim != 128)) return false;
    if (reinterpret_cast<std::uintptr_t>(view.data) % kCopyBytes != 0) return false;
    if (view.row_stride % 8 != 0) return false;
  }
  return device_attribute(cudaDevAttrComputeCapabilityMajor) >= 8;
}

}  // namespace

void launch_attention_forward(cudaStream_t stream, const AttentionForward& op) {
  check_supported(op);
  if (suits_tensor_cores({op.q, op.k, op.v, op.o})) {
    launch_flash_forward(stream, op);
  } else {
    launch_reference_attention_forward(stream, op);
  }
}

void launch_attention_backward(cudaStream_t stream, const AttentionBackward& op) {
  check_supported(op);
  if (suits_tensor_cores({op.d_o, op.q, op.k, op.v, op.o, op.dq, op.dk, op.dv})) {
    launch_flash_backward(stream, op);
  } else {
    launch_reference_attention_backward(stream, op);
  }
}

}  // namespace strata::cuda
