// The plan of a session: how much memory its machine has, and where everything lives in it. All
// ranks decide together, and alike in what concerns them all.

#pragma once

#include <vector>

#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/device/device.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/setup.h"

namespace strata {

struct SessionPlan {
  Setup setup;
  RunConfig resolved;  ///< the config with everything decided
  std::vector<PlacementChoice> choices;
};

/// Measures the memory that is left and plans a run in it. Throws ConfigError or OutOfMemory with
/// the remedy if the run does not fit, and AgreedError if the ranks' machines let them plan
/// differently. All ranks call it; it blocks.
[[nodiscard]] SessionPlan plan_session(const RunConfig& config, Device& device,
                                       const RankGroups& groups, Ranks& ranks);

}  // namespace strata
