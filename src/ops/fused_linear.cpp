// Checks that the parts of a fused linear layer fit each other and lists the bytes that they touch.
// Kernels are in kernels/cpu/fused.cpp and kernels/cuda/products/fused_linear.cu.

#include "strata/ops/fused_linear.h"

#include <algorithm>
#include <array>

#include "check.h"
#include "parts.h"

namespace strata {

namespace {

bool same(const ConstTensorView& a, const ConstTensorView& b) {
  return a.data == b.data && a.shape == b.shape && a.row_stride == b.row_stride;
}

}  // namespace

void FusedLinear::check() const {
  const Checker c(kName);
  for_each_part(*this, [](const auto& part) { part.check(); });
  c.require(product.batch_invariant, "product", "must be batch-invariant");
  c.matches("out", product.out, product.out.shape, product.a.dtype);
  c.require(!norm.x || same(norm.y, product.a), "norm.y", "must be what the product reads");
  c.require(!norm.y8, "norm.y8", "must be absent");
  c.require(!gate.y8, "gate.y8", "must be absent");
  c.require(!gate.y || same(gate.gate_up, product.out), "gate.gate_up",
            "must be what the product writes");
  c.require(!gate.y || !residual.a, "residual", "must be absent with a gate");
  const auto apart = [&](const ConstTensorView& out) {
    if (!out || out.elements() == 0) return true;
    return std::ranges::none_of(
        std::array{norm.x, norm.residual, product.a},
        [&](const ConstTensorView& read) { return read && read.data == out.data; });
  };
  c.require(apart(norm.sum), "norm.sum", "must be apart from what is read");
  c.require(apart(product.out), "out", "must be apart from what is read");
  c.require(apart(gate.y), "gate.y", "must be apart from what is read");
  const bool adds_here = same(residual.b, product.out) && same(residual.y, product.out);
  c.require(!residual.a || adds_here, "residual", "must add to what the product writes");
}

Accesses FusedLinear::accesses() const { return accesses_of_parts(*this); }

/// So few rows take as long as reading the weights.
Cost FusedLinear::cost() const { return {.flops = product.cost().flops}; }

}  // namespace strata
