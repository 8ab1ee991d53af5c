// A step as the optimizer sees it from outside: what the submitting thread knows when it begins the
// step, and what the host lane reports once the step is decided.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/optimizer/bad_steps.h"

namespace strata {

/// This is what the submitting thread knows of a step.
struct StepPlan {
  std::int64_t step = 0;  ///< 0-based
  double lr = 0;
  std::int64_t valid_tokens = 0;  ///< of all passes and ranks; of pairs of answers, the pairs

  /// Returns what people call the step, and messages with them: they count from 1.
  [[nodiscard]] std::int64_t number() const { return step + 1; }
};

/// Says what became of a step. It is handed out on the host lane once norm and loss are known.
struct StepOutcome {
  std::int64_t step = 0;
  std::optional<double> loss;  ///< mean over all valid tokens of the step; absent: it has none
  // Of pairs of answers, means over them; else 0.
  double chosen_reward = 0;
  double rejected_reward = 0;
  double preferred = 0;  ///< share of the pairs whose chosen answer has the larger reward
  double grad_norm = 0;  ///< global, of the gradient the optimizer reads, before clipping
  double lr = 0;
  bool applied = true;  ///< false: the step was skipped (bad, or without valid tokens)
  std::string bad;      ///< what is wrong with the step, the same on all ranks; empty: nothing
  StepHistory history;  ///< this step included
  bool missed = false;  ///< kSpeculative: early updates were undone (clipped, or bad)
};

}  // namespace strata
