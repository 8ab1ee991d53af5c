// Says which attention a fused operator consists of, checks its tensors, lists the bytes that they
// touch and counts those that have to move. Kernels are in kernels/cpu/fused.cpp and
// kernels/cuda/attention/portable/decode_attention.cu.

#include "strata/ops/fused_attend.h"

#include "check.h"
#include "parts.h"

namespace strata {

AttentionForward FusedAttend::attention() const {
  const TensorView& x = added.rope.x;
  const AppendKv& append = added.append;
  const std::int64_t heads = x.shape[1] - append.k.shape[1];
  return {.q = TensorView(x.data, x.dtype, Shape{x.rows(), heads, x.shape[2]}, x.row_stride),
          .k = append.cache_k,
          .v = append.cache_v,
          .segments = {.table = segments, .pairs = pairs},
          .o = o,
          .lse = lse,
          .parts = parts,
          .scale = scale,
          .window = window,
          .score_cap = score_cap};
}

void FusedAttend::check() const {
  added.check();
  attention().check();
  Checker(kName).require(segments.rows() == o.rows(), "segments", "must be one for each token");
}

Accesses FusedAttend::accesses() const { return accesses_of_parts(*this); }

/// Queries and keys are read once, and not written where they came from.
Cost FusedAttend::cost() const {
  const TensorView& x = added.rope.x;
  Cost all = attention().cost();
  all.bytes += added.cost().bytes - static_cast<std::size_t>(x.elements()) * size_of(x.dtype);
  return all;
}

}  // namespace strata
