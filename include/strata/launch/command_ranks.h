// Makes the ranks that a launcher started, as commands ask for them, and sees to it that all of
// them run the same command.
#pragma once

#include <memory>
#include <string_view>

#include "strata/comm/ranks.h"

namespace strata {

/// Returns what a launcher started (make_world_ranks), all for `command`, such as "train". Every
/// command that ranks may be started for calls it: ranks meet first in it, and so those of
/// different commands notice, which would wait for each other for ever. Throws as
/// make_world_ranks() and require_one_command() do.
[[nodiscard]] std::unique_ptr<Ranks> make_command_ranks(std::string_view command);

}  // namespace strata
