// Checks the operands of the matrix product, lists the bytes that it touches and counts its FLOPs.
// Kernels are in kernels/cpu/matmul.cpp and kernels/cuda/products, which calls cuBLASLt.

#include "strata/ops/matmul.h"

#include <cmath>

#include "check.h"

namespace strata {

namespace {

/// Checks what only products of codes have and may be.
void check_codes(const Matmul& op, const Checker& c) {
  c.require(op.layout == MatmulLayout::kNT, "a", "in e4m3 must be multiplied in layout NT");
  c.require(!op.batch_invariant, "out", "is not batch-invariant for operands in e4m3");
  c.require(!op.bias, "bias", "is not added to products of operands in e4m3");
  c.matches_contiguous("a_scale", op.a_scale, {op.m()}, DType::kF32);
  c.matches_contiguous("b_scale", op.b_scale, {op.n()}, DType::kF32);
  c.compute_dtype("out", op.out);
  if (op.update == MatmulUpdate::kAccumulate) {
    c.dtype_in("out", op.out, {accumulator_of(op.out.dtype)});
  }
}

}  // namespace

void Matmul::check() const {
  const Checker c(kName);
  c.rank("a", a, 2);
  c.rank("b", b, 2);
  c.rank("out", out, 2);
  const bool codes = a.dtype == DType::kE4M3;
  if (!codes) c.compute_dtype("a", a);
  const Shape shape_a = layout == MatmulLayout::kTN ? Shape{k(), m()} : Shape{m(), k()};
  const Shape shape_b = layout == MatmulLayout::kNT ? Shape{n(), k()} : Shape{k(), n()};
  c.matches("a", a, shape_a, a.dtype);
  c.matches("b", b, shape_b, a.dtype);
  if (batch_invariant && (layout != MatmulLayout::kNT || update != MatmulUpdate::kOverwrite)) {
    c.fail("out", "is batch-invariant only in layout NT, overwritten");
  }
  c.require(std::isfinite(alpha) && alpha != 0, "alpha", "must be finite and not 0");
  if (codes) {
    check_codes(*this, c);
  } else {
    c.require(!a_scale, "a_scale", "must be absent unless operands are in e4m3");
    c.require(!b_scale, "b_scale", "must be absent unless operands are in e4m3");
    c.dtype_in("out", out, {a.dtype, accumulator_of(a.dtype)});
  }
  if (!given(bias)) return;
  c.require(layout == MatmulLayout::kNT && update == MatmulUpdate::kOverwrite, "bias",
            "is added only in layout NT, overwritten");
  c.require(!batch_invariant, "bias", "is not added by batch-invariant products");
  c.dtype_in("out", out, {a.dtype});
  c.matches_contiguous("bias", bias, {n()}, a.dtype);
}

Accesses Matmul::accesses() const {
  const ByteRange previous = update == MatmulUpdate::kAccumulate ? out.bytes() : ByteRange{};
  return {{a.bytes(), b.bytes(), a_scale.bytes(), b_scale.bytes(), previous, bias.bytes()},
          {out.bytes()}};
}

Cost Matmul::cost() const {
  return {
      .kind = a.dtype == DType::kE4M3 ? CostKind::kCodesProduct : CostKind::kProduct,
      .flops = 2 * static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k()),
      .extents = {m(), n(), k()}};
}

}  // namespace strata
