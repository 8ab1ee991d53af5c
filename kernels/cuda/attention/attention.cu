// This file launches the kernels that compute an attention operator, of the family that
// attention_choice.h picks by config, dtype, head dim, alignment, segments and device. CudaKernels
// calls enqueue() for it. What no family takes is refused with BackendError, as is a scale that is
// not positive.

#include "kernels/cuda/attention/attention.cuh"

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/cuda/attention/attention_choice.h"
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
  return q.dtype == DType::kBF16 && has_tensor_cores_for(q.shape[2]) && rows_aligned({q}) &&
         rows_aligned(others);
}
[[nodiscard]] bool suits_hopper(const ConstTensorView& q,
                                std::initializer_list<ConstTensorView> others) {
  return hopper_available() && suits_tensor_cores(q, others);
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
  const AttentionNeeds needs{
      .kernels = context.attention.kernels,
      .hopper = suits_hopper(op.q, {op.k, op.v, op.o}),
      .tensor_cores = suits_tensor_cores(op.q, {op.k, op.v, op.o}) && begins_aligned(op.parts),
      .parts = static_cast<bool>(op.parts),
      .queries = op.q.shape[0],
      .windowed = op.window > 0,
      .capped = op.score_cap > 0};
  const AttentionFamily family = family_of(needs, op.segments);
  if (family != AttentionFamily::kCudnn) check_supported(op);
  switch (family) {
    case AttentionFamily::kCudnn: return context.cudnn->forward(context.stream, op);
    case AttentionFamily::kReference: return launch_reference_attention_forward(context.stream, op);
    case AttentionFamily::kDecode: return launch_decode_attention(context.stream, op);
    case AttentionFamily::kHopper:
      return launch_hopper_forward(context.stream, op, context.attention.counter);
    case AttentionFamily::kPortable: return launch_flash_forward(context.stream, op);
  }
}

void enqueue(const Context& context, const FusedAttend& op) {
  const AttentionForward attention = op.attention();
  const Rope& rope = op.added.rope;
  const AppendKv& append = op.added.append;
  const bool at_once = op.parts && begins_aligned(op.parts) &&
                       suits_tensor_cores(attention.q, {attention.k, attention.v, attention.o,
                                                        append.k, append.v}) &&
                       rows_aligned({rope.cos, rope.sin});
  if (!at_once) return for_each_part(op, [&](const auto& part) { enqueue(context, part); });
  check_supported(attention);
  launch_fused_attend(context.stream, op);
}

void enqueue(const Context& context, const AttentionBackward& op) {
  const AttentionNeeds needs{
      .kernels = context.attention.kernels,
      .hopper = suits_hopper(op.q, {op.d_o, op.k, op.v, op.o, op.dq, op.dk, op.dv}) &&
                rows_aligned({op.rotation.cos, op.rotation.sin}),
      .tensor_cores = suits_tensor_cores(op.q, {op.d_o, op.k, op.v, op.o, op.dq, op.dk, op.dv}),
      .queries = op.q.shape[0],
      .windowed = op.window > 0,
      .capped = op.score_cap > 0};
  const AttentionFamily family = family_of(needs, op.segments);
  if (family != AttentionFamily::kCudnn) check_supported(op);
  switch (family) {
    case AttentionFamily::kCudnn: context.cudnn->backward(context.stream, op); break;
    case AttentionFamily::kHopper:
      return launch_hopper_backward(context.stream, op, context.attention.counter);
    case AttentionFamily::kPortable: launch_flash_backward(context.stream, op); break;
    case AttentionFamily::kReference:
    case AttentionFamily::kDecode: launch_reference_attention_backward(context.stream, op); break;
  }
  enqueue_rotation_backward(context, op);
}

}  // namespace strata::cuda
