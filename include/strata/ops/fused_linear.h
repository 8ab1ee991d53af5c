// A linear layer for few rows together with what comes just before and after it. Generation runs
// it for the tokens of a single stream, where the start of each kernel would count as much as its
// work. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/ops/elementwise.h"
#include "strata/ops/matmul.h"
#include "strata/ops/norm.h"
#include "strata/ops/swiglu.h"

namespace strata {

/// Runs its parts one after the other, with the bits that they have alone, and leaves backends free
/// to compute all of them at once. Parts without tensors are left out.
///
/// norm.y and norm.rstd, and with `gate` product.out too, are scratch: read by the next part alone,
/// and unspecified afterwards. What is written, norm.sum among it, is apart from what the norm, or
/// without one the product, reads.
///
/// `product.b` and `norm.weight` are read ahead: no operator that was submitted to the lane since
/// the last EmbeddingForward, copy or wait there writes them.
struct FusedLinear {
  static constexpr std::string_view kName = "fused_linear";
  /// With more rows the parts are as fast alone.
  static constexpr std::int64_t kMostRows = 4;
  RmsNormForward norm{};   ///< y is product.a; or absent
  Matmul product;          ///< batch-invariant, [N, out] X = [N, in] X times [out, in] X transposed
  SwigluForward gate{};    ///< gate_up is product.out; or absent
  ResidualAdd residual{};  ///< b and y are product.out; or absent, as with a gate
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// Calls `run(part)` for each part that is there, in order.
template <class Run>
void for_each_part(const FusedLinear& op, const Run& run) {
  if (op.norm.x) run(op.norm);
  run(op.product);
  if (op.gate.y) run(op.gate);
  if (op.residual.a) run(op.residual);
}

}  // namespace strata
