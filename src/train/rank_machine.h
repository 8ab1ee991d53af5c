// What a rank of a session computes and communicates on. It is started first, before data are
// opened or memory is counted.

#pragma once

#include "strata/base/work_progress.h"
#include "strata/comm/collectives.h"
#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/ops/backend.h"
#include "strata/train/session.h"

namespace strata {

struct RankMachine {
  Backend backend;
  GroupCollectives collectives;  ///< of the groups, on the device of `backend`
};

/// Starts the backend that the config asks for, or that "auto" stands for here, on a GPU and on
/// cores that no other rank has, and connects it with the others. Throws AgreedError if several
/// ranks cannot work together as they were started, ConfigError for a backend that cannot run the
/// config, and BackendError. All ranks call it; `groups` outlives the machine.
[[nodiscard]] RankMachine start_machine(const RunConfig& config, const SessionHooks& hooks,
                                        RankGroups& groups, Ranks& ranks, WorkProgress& work);

}  // namespace strata
