// The loss operator: cross-entropy per token, fused with the gradient of the logits. The model's
// head runs it on each chunk of tokens; the factors of gradients lie in device memory before it
// runs. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// loss[n] = lse[n] - logits[n, targets[n]], natural log; 0 where targets[n] is kIgnoreIndex.
/// d_logits = (softmax(logits) - onehot) * grad_scale, that of the row if each has one; rows that
/// are ignored get zeros.
/// Everything is computed in A. In place (d_logits == logits) is allowed.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  static constexpr std::int32_t kIgnoreIndex = -100;
  ConstTensorView logits;      ///< [N, V] X; rows may be strided
  ConstTensorView targets;     ///< [N] i32, each in [0, V) or kIgnoreIndex
  ConstTensorView grad_scale;  ///< [1] or [N] A, read on the device; absent if d_logits is
  TensorView loss;             ///< [N] A
  TensorView lse;              ///< [N] A
  TensorView d_logits;         ///< [N, V] X, strided like logits; absent: forward only
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
