// Submits the operators of a unit for one cell, so that the lists in llama_layer.cpp and
// llama_head.cpp name nothing but operators and tensors. It also names the three products of a
// linear layer y = x W^T.

#pragma once

#include "strata/base/tensor.h"
#include "strata/model/fp8_scratch.h"
#include "strata/ops/kernels.h"

namespace strata {

/// Returns y [N, out] = multiplier * x [N, in] W^T, of which a row does not depend on the others.
[[nodiscard]] inline Matmul linear_by_row(const ConstTensorView& x, const ConstTensorView& w,
                                          const TensorView& y, double multiplier = 1) {
  return {.a = x, .b = w, .out = y, .batch_invariant = true, .alpha = multiplier};
}

/// Runs operators on the compute lane under one tag, in the order of its calls. It is made for one
/// list and not kept. Its functions do not block; they throw as Kernels::run does.
class CellRunner {
 public:
  CellRunner(Kernels& kernels, Stream& compute, const Tag& tag)
      : kernels_(kernels), compute_(compute), tag_(tag) {}

  template <Op O>
  void operator()(const O& op) const {
    kernels_.run(compute_, op, tag_);
  }
  /// y [N, out] = multiplier * x [N, in] W^T, with W [out, in], plus a bias [out] if it is given.
  void linear(const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
              double multiplier = 1, const ConstTensorView& bias = {}) const {
    (*this)(Matmul{.a = x, .b = w, .out = y, .alpha = multiplier, .bias = bias});
  }
  /// Runs a linear layer with what comes before and after it, so that a row does not depend on the
  /// others: as one operator for few rows, else its parts.
  void by_row(const FusedLinear& layer) const {
    if (layer.product.m() <= FusedLinear::kMostRows) return (*this)(layer);
    for_each_part(layer, *this);
  }
  /// dx [N, in] = multiplier * dy [N, out] W.
  void input_gradient(const ConstTensorView& dy, const ConstTensorView& w, const TensorView& dx,
                      double multiplier = 1) const {
    (*this)(Matmul{.a = dy, .b = w, .out = dx, .layout = MatmulLayout::kNN, .alpha = multiplier});
  }
  /// dw [out, in] A += multiplier * dy^T x.
  void weight_gradient(const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dw,
                       double multiplier = 1) const {
    (*this)(Matmul{.a = dy,
                   .b = x,
                   .out = dw,
                   .layout = MatmulLayout::kTN,
                   .update = MatmulUpdate::kAccumulate,
                   .alpha = multiplier});
  }
  /// out [rows of a, rows of b] (+)= multiplier * a b^T, of codes.
  void product(const Fp8Codes& a, const Fp8Codes& b, const TensorView& out, MatmulUpdate update,
               double multiplier = 1) const {
    (*this)(Matmul{.a = a.q,
                   .b = b.q,
                   .out = out,
                   .update = update,
                   .alpha = multiplier,
                   .a_scale = a.scale,
                   .b_scale = b.scale});
  }
  [[nodiscard]] Stream& compute() const { return compute_; }
  [[nodiscard]] const Tag& tag() const { return tag_; }

 private:
  Kernels& kernels_;
  Stream& compute_;
  Tag tag_;
};

}  // namespace strata
