// Picks the kernels for an attention operator.

#include "kernels/cuda/attention.cuh"

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/cuda/attention_tensor_core.cuh"
#include "kernels/cuda/dispatch.h"
#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

/// Throws BackendError if no kernel computes the operator.
template <class O>
void check_supported(const O& op) {
  const DType dtype = op.q.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF32) throw_unsupported(O::kName, dtype);
  constexpr std::int64_t kLargestHeadDim = 256;
  const std::string who = "operator " + std::string(O::kName) + ": ";
  if (op.q.shape[2] > kLargestHeadDim) {
    throw BackendError(who + "the cuda backend has head dims up to 256, not " +
                       std::to_string(op.q.shape[2]));
  }
  if (!(op.scale > 0)) {
    throw BackendError(who + "scale must be positive, not " + std::to_string(op.scale));
  }
}

[[nodiscard]] bool suits_tensor_cores(const ConstTensorView& q,
                                      std::initializer_list<ConstTensorView> others) {
  const std::int64_t head_dim = q.shape[2];
  return q.dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128) && rows_aligned({q}) &&
         rows_aligned(others);
}

#ifdef STRATA_HOPPER
/// Whether the device can run the kernels for compute capability 9.0.
[[nodiscard]] bool on_hopper() {
  int device = 0;
  int major = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9;
}

[[nodiscard]] bool suits_hopper(const AttentionSegments& segments) {
  return segments.uniform_length > 0 || segments.table.rows() <= kMostHopperSegments;
}
#endif

}  // namespace

void launch_attention_forward(cudaStream_t stream, const AttentionForward& op) {
  check_supported(op);
  if (suits_tensor_cores(op.q, {op.k, op.v, op.o})) {
#ifdef STRATA_HOPPER
    if (on_hopper() && suits_hopper(op.segments)) return launch_hopper_forward(stream, op);
#endif
    launch_flash_forward(stream, op);
  } else {
    launch_reference_attention_forward(stream, op);
  }
}

void launch_attention_backward(cudaStream_t stream, const AttentionBackward& op) {
  check_supported(op);
  if (suits_tensor_cores(op.q, {op.d_o, op.k, op.v, op.o, op.dq, op.dk, op.dv})) {
#ifdef STRATA_HOPPER
    if (on_hopper() && suits_hopper(op.segments) &&
        (op.segments.uniform_length > 0 || op.segments.self_attention)) {
      return launch_hopper_backward(stream, op);
    }
#endif
    launch_flash_backward(stream, op);
  } else {
    launch_reference_attention_backward(stream, op);
  }
}

std::vector<const void*> hopper_modules() {
#ifdef STRATA_HOPPER
  if (on_hopper()) return {hopper_forward_module(), hopper_backward_module()};
#endif
  return {};
}

}  // namespace strata::cuda
