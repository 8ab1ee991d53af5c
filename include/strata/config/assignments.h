// Differences of configs in the form in which --set takes them: what `tune` and refusals print for
// somebody to paste, and what they try out themselves.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"

namespace strata {

/// Returns what makes one config of another, such as "optimizer.moment_dtype=bf16", in the order of
/// the keys.
[[nodiscard]] std::vector<std::string> assignments(const RunConfig& from, const RunConfig& to);

/// Returns the config with these assignments, or nothing if no run may have them.
[[nodiscard]] std::optional<RunConfig> with_assignments(const RunConfig& config,
                                                        const std::vector<std::string>& sets);

}  // namespace strata
