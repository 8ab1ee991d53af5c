// Finds what a user whose run does not fit can paste: keys that let it fit together, where no
// single one does. The mildest come first: how memory is shared, then rounded moments (in bf16,
// then in 8 bits), then updates that wait for no norm, then a step of fewer tokens.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/plan/setup.h"

namespace strata {

struct FittingChanges {
  std::vector<std::string> sets;         ///< "optimizer.moment_dtype=bf16", as --set takes them
  std::optional<double> tokens_per_s{};  ///< of all ranks, with them; absent: not predicted
};

/// Returns changes with which `given` fits by the rules, none of which is there for nothing else
/// than speed; nothing if none were found. It takes as long as up to some hundred plans.
[[nodiscard]] std::optional<FittingChanges> find_fitting_changes(const RunConfig& given,
                                                                 const PlannedRank& planned);

/// Returns lines, after a space, that say so; empty if nothing was found.
[[nodiscard]] std::string fitting_text(const RunConfig& given, const PlannedRank& planned);

}  // namespace strata
