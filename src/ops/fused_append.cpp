// Checks that the parts of a fused append fit each other, lists the bytes that they touch and
// counts those that have to move. Kernels are in kernels/cpu/fused.cpp and
// kernels/cuda/rows/fused_append.cu.

#include "strata/ops/fused_append.h"

#include "check.h"
#include "parts.h"

namespace strata {

void FusedAppend::check() const {
  const Checker c(kName);
  for_each_part(*this, [](const auto& part) { part.check(); });
  c.require(rope.direction == RopeDirection::kForward, "x", "must be turned forward");
  c.require(rope.turns_whole_halves(), "x", "must be turned as a whole, in halves");
  const TensorView& x = rope.x;
  const ConstTensorView& k = append.k;
  const std::int64_t before = (x.shape[1] - k.shape[1]) * x.shape[2];
  const auto* const last =
      static_cast<const std::byte*>(x.data) + before * static_cast<std::int64_t>(size_of(x.dtype));
  c.require(before >= 0 && k.data == last && k.row_stride == x.row_stride && k.rows() == x.rows() &&
                k.shape[2] == x.shape[2] && k.dtype == x.dtype,
            "k", "must be the last heads of what is turned");
}

Accesses FusedAppend::accesses() const { return accesses_of_parts(*this); }

/// Keys are read once.
Cost FusedAppend::cost() const {
  const std::size_t keys = static_cast<std::size_t>(append.k.elements()) * size_of(append.k.dtype);
  return {.bytes = rope.cost().bytes + append.cost().bytes - keys};
}

}  // namespace strata
