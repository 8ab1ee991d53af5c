// Differences of configs in the form in which --set takes them: what `tune` and refusals print for
// somebody to paste, what they try out themselves, and what a command line gives.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/config/config.h"

namespace strata {

/// Returns what makes one config of another, such as "optimizer.moment_dtype=bf16", in the order of
/// the keys.
[[nodiscard]] std::vector<std::string> assignments(const RunConfig& from, const RunConfig& to);

/// Returns the config with these assignments, or nothing if no run may have them.
[[nodiscard]] std::optional<RunConfig> with_assignments(const RunConfig& config,
                                                        const std::vector<std::string>& sets);

/// Returns whether --set gives a key, such as "run.steps", alone or with its section. Throws
/// ConfigError about `source`, the config that they are for, if one of them sets nothing.
[[nodiscard]] bool assigns(std::span<const std::string> sets, std::string_view key,
                           std::string_view source);

}  // namespace strata
