// The commands that run on several ranks, `train` and `bench`, begin and end their bodies here. The
// functions see to it that all ranks begin with the same run, and end together when one fails.

#pragma once

#include <functional>
#include <string_view>

#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

/// Reads and validates the config that the command line names.
using LoadConfig = std::function<RunConfig()>;

/// Loads the config and runs `body` with it on this rank of `command`; returns the exit code. Where
/// several ranks were started, one that cannot load its config, or was given another run than rank
/// 0, ends all of them before `body` begins. An error of `body` is logged, on standard error and
/// where it configured the log to go; with several ranks it takes all of them down with its exit
/// code, so that none hangs in a collective. Throws what `load` throws if there is one rank, and
/// nothing that `body` throws.
int on_all_ranks(std::string_view command, const LoadConfig& load,
                 const std::function<int(Ranks&, const RunConfig&)>& body);

/// Runs `body` and returns its exit code. If there are several ranks, an error is logged and takes
/// all of them down with its exit code at once; else it is thrown. A body runs what uses a session
/// in this way while the session lives: one that goes waits for what it has in flight, and so
/// perhaps for ranks that have failed as well and wait for it in another collective.
int end_together(Ranks& ranks, const std::function<int()>& body);

}  // namespace strata
