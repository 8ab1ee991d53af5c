// The kinds of optimizers, and what each needs of the rest of the program: how many moments the
// state of a parameter has. UpdateRule (strata/optimizer/update_rule.h) names the operator that
// computes its formula, and adamw_scalars() the numbers of an update. The planner makes the state
// of a run from this.

#pragma once

#include <cstdint>

namespace strata {

/// These are the values of the key `optimizer.kind`.
enum class OptimizerKind : std::uint8_t {
  kAdamW,  ///< Loshchilov and Hutter, 2019
  kLion,   ///< Chen et al., 2023
  kSgd,    ///< stochastic gradient descent with momentum, Nesterov's if asked for
  kMuon,   ///< Jordan et al., 2024, for matrices of layers; AdamW for everything else
};

/// Returns how many moments of a parameter an optimizer keeps: m, and v if there are two. All
/// parameters of a run have as many, so the v of matrices is unused with kMuon.
[[nodiscard]] constexpr int moments_of(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW || kind == OptimizerKind::kMuon ? 2 : 1;
}

}  // namespace strata
