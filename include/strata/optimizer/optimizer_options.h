// The numbers and choices of the optimizer that the config makes. The layout of a training engine
// holds them, and the parts of the optimizer read those that they need.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/optimizer/bad_steps.h"
#include "strata/optimizer/optimizer_kind.h"
#include "strata/optimizer/timing.h"

namespace strata {

/// These are the numbers of the optimizer, as the config gives them.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;  ///< kSgd: the momentum
  double beta2 = 0.95;
  bool nesterov = false;        ///< of kSgd
  double muon_momentum = 0.95;  ///< of kMuon's matrices
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  std::vector<std::string> lr_factors;     ///< "lm_head.weight=0.5": see parameter_groups.h
  std::vector<std::string> weight_decays;  ///< likewise, in place of weight_decay and decay_norms
  std::optional<double> grad_clip;         ///< global L2 norm; not with kOnArrival
  UpdateTiming timing = UpdateTiming::kBeforeUse;  ///< when a step is decided
  OnBadStep on_bad_step = OnBadStep::kSkip;        ///< not kSkip with kOnArrival
  int max_bad_steps = 3;                           ///< kSkip: so many in a row end the run
  OutlierLimits outliers;
  std::uint64_t seed = 0;  ///< of the run: rounds small moments, with the update's number
};

}  // namespace strata
