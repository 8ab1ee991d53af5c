// This file picks the kernels that compute an attention operator: cuDNN's if the config says so,
// else by dtype, head dim, alignment, segments and device. CudaKernels calls enqueue() for it. What
// no family takes is refused with BackendError, as is a scale that is not positive.

#include "kernels/cuda/attention/attention.cuh"

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/cudnn/cudnn_attention.h"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/operators.h"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

/// Throws BackendError if no kernel computes the operator.
template <class O>
void check_supported(const O& op) {
  const DType dtype = op.q.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF32) throw_unsupported(O::kName, dtype);
  constexpr std::int64_t kLargestHeadDim = 256;
  const auto fail = [](const std::string& problem) {
    throw BackendError("operator " + std::string(O::kName) + ": " + problem);
  };
  if (op.q.shape[2] > kLargestHeadDim) {
    fail("the cuda backend has head dims up to 256, not " + std::to_string(op.q.shape[2]));
  }
  if (!(op.scale > 0)) {
    fail("scale must be positive, not " + std::to_string(op.scale));
  }
}

[[nodiscard]] bool suits_tensor_cores(const ConstTensorView& q,
                                      std::initializer_list<ConstTensorView> others) {
  const std::int64_t head_dim = q.shape[2];
  return q.dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128) && rows_aligned({q}) &&
         rows_aligned(others);
}

/// Says whether the sm_90a kernels may take these segments: they find their tiles with a bounded
/// table.
[[nodiscard]] bool suits_hopper(AttentionKernels kernels, const AttentionSegments& segments) {
  return kernels == AttentionKernels::kAuto && hopper_available() &&
         (segments.uniform_length > 0 || segments.table.rows() <= kMostHopperSegments);
}

/// Turns op.dq and op.dk back in place if op has a rotation, for kernels that leave that out.
void enqueue_rotation_backward(const Context& context, const AttentionBackward& op) {
  if (!op.rotation.positions) return;
  for (const TensorView& x : {op.dq, op.dk}) {
    enqueue(context, Rope{.x = x,
                          .positions = op.rotation.positions,
                          .cos = op.rotation.cos,
                          .sin = op.rotation.sin,
                          .direction = RopeDirection::kBackward});
  }
}

}  // namespace

void enqueue(const Context& context, const AttentionForward& op) {
  if (context.cudnn != nullptr) return context.cudnn->forward(context.stream, op);
  check_supported(op);
  // The bits of a query over a cache must not depend on the tile that it falls in.
  const bool self = op.segments.uniform_length > 0 || op.segments.self_attention;
  if (!suits_tensor_cores(op.q, {op.k, op.v, op.o}) || !begins_aligned(op.parts)) {
    launch_reference_attention_forward(context.stream, op);
  } else if (op.parts) {
    launch_decode_attention(context.stream, op);
  } else if (self && suits_hopper(context.attention.kernels, op.segments)) {
    launch_hopper_forward(context.stream, op, context.attention.counter);
  } else {
    launch_flash_forward(context.stream, op);
  }
}

void enqueue(const Context& context, const FusedAttend& op) {
  const AttentionForward attention = op.attention();
  const Rope& rope = op.added.rope;
  const AppendKv& append = op.added.append;
  const bool at_once = context.cudnn == nullptr && op.parts && begins_aligned(op.parts) &&
                       suits_tensor_cores(attention.q, {attention.k, attention.v, attention.o,
                                                        append.k, append.v}) &&
                       rows_aligned({rope.cos, rope.sin});
  if (!at_once) return for_each_part(op, [&](const auto& part) { enqueue(context, part); });
  check_supported(attention);
  launch_fused_attend(context.stream, op);
}

void enqueue(const Context& context, const AttentionBackward& op) {
  if (context.cudnn != nullptr) {
    context.cudnn->backward(context.stream, op);
    return enqueue_rotation_backward(context, op);
  }
  check_supported(op);
  const bool self = op.segments.uniform_length > 0 || op.segments.self_attention;
  const bool tensor_cores =
      suits_tensor_cores(op.q, {op.d_o, op.k, op.v, op.o, op.dq, op.dk, op.dv});
  if (tensor_cores && self && suits_hopper(context.attention.kernels, op.segments) &&
      rows_aligned({op.rotation.cos, op.rotation.sin})) {
    return launch_hopper_backward(context.stream, op, context.attention.counter);
  }
  if (tensor_cores) {
    launch_flash_backward(context.stream, op);
  } else {
    launch_reference_attention_backward(context.stream, op);
  }
  enqueue_rotation_backward(context, op);
}

}  // namespace strata::cuda
