// Checks the angles of operators that rotate on the way. The check() functions of attention and of
// norms of heads call it.
#pragma once

#include "check.h"
#include "strata/ops/rope.h"

namespace strata {

/// Returns whether any of the three tensors was given.
[[nodiscard]] bool given(const RopeAngles& angles);
/// Requires that the angles are those of the rows of x [N, heads, D], whose D is even.
void check_angles(const Checker& c, const RopeAngles& angles, const ConstTensorView& x);

}  // namespace strata
