// The bias of a linear layer: added to the rows of a product, and its gradient. Training adds
// biases within products (strata/ops/matmul.h). Generation runs the first operator here after
// products that do not depend on other rows, and training the second beside the weight's gradient.
// Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// y = x + bias, the same bias for every row, added in A and rounded once. In place is allowed.
struct BiasAdd {
  static constexpr std::string_view kName = "bias_add";
  ConstTensorView x;     ///< [N, C] X
  ConstTensorView bias;  ///< [C] X
  TensorView y;          ///< [N, C] X
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// d_bias += sum over n of dy. The sum runs in a fixed order.
struct BiasBackward {
  static constexpr std::string_view kName = "bias_backward";
  ConstTensorView dy;    ///< [N, C] X
  TensorView d_bias;     ///< [C] A, added to
  TensorView workspace;  ///< [kWorkspaceRows, C] A: partial sums; the cpu backend ignores it
  static constexpr std::int64_t kWorkspaceRows = 64;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
