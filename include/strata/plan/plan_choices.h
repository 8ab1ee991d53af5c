// What the planner may vary of a run. A candidate is a value of PlanChoices: the config that the
// user gave is never edited, and what a candidate does not name is read from it. None of the
// choices changes a bit of the results.

#pragma once

#include <optional>

#include "strata/config/config.h"

namespace strata {

/// One way to run what a config describes.
struct PlanChoices {
  int deferred_units = 0;            ///< updates that are left for the next forward
  double interleave = 0;             ///< share of the layers on the host that the device updates
  std::optional<KeepLevel> spill{};  ///< of every cell; absent: the rule decides cell by cell
  std::optional<int> activation_slots{};  ///< absent: the rule decides
};

/// Returns what the config names and, of what it leaves open, what the rules say.
[[nodiscard]] PlanChoices choices_by_rule(const RunConfig& given);

}  // namespace strata
