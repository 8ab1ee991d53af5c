// The loss operator of preference training: it sums the log-probabilities of answers, takes the
// loss of each pair, and says by which factor cross-entropy scales the gradient of each token.
// The model's head runs it on a cell between two sweeps. Letters of shapes are those of
// strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"
#include "strata/ops/preference_formula.h"

namespace strata {

/// Pairs lie side by side: the tokens of the chosen answer, with its prompt, then those of the
/// rejected one. The log-probability of an answer is minus the sum of its losses, in A in a fixed
/// order, and its tokens are those with a target.
/// figures[p] = {loss, reward of chosen, reward of rejected, 1 if the first is larger, else 0}, and
/// zeros from P on; token_scale[n] = grad_scale[0] times the derivative of the pair's loss by
/// token_loss[n]. That of tokens in no pair is left as it is: they have no targets.
struct PreferenceLoss {
  static constexpr std::string_view kName = "preference_loss";
  /// Columns of `figures`. A pair has at least as many tokens.
  static constexpr std::int64_t kFigures = 4;
  /// Columns of `pairs`.
  static constexpr std::int64_t kPairColumns = 3;
  ConstTensorView token_loss;  ///< [N] A, of CrossEntropy
  ConstTensorView reference;   ///< [N] A, the same of the reference; absent if the rule needs none
  /// [P, 2] f64, log-probabilities of chosen and rejected answers by a reference that computed them
  /// before; absent where `reference` is there
  ConstTensorView reference_logs{};
  ConstTensorView targets;  ///< [N] i32
  /// [P, 3] i32: the first token of a pair, the first one of its rejected answer, the end
  ConstTensorView pairs;
  ConstTensorView grad_scale;  ///< [1] A, read on the device; absent if token_scale is
  TensorView figures;          ///< [R, 4] A, where R is at least P
  TensorView token_scale;      ///< [N] A; absent: forward only
  PreferenceRule rule;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
