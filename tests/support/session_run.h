// Whole runs of a tiny model through sessions, gathered over their ranks: what tests of training
// compare with each other, and with runs that have no session (support/tiny_run.h).
#pragma once

#include "strata/train/session.h"
#include "support/tiny_run.h"

namespace strata::test {

/// Trains config.run.steps steps at lr config.optimizer.lr on `ranks` ranks, each with a thread, a
/// device and a session of its own, on hosts as run_ranks has them.
[[nodiscard]] RunResult run_session(const RunConfig& config, int ranks = 1,
                                    const SessionHooks& hooks = {}, int on_host = 0);
/// The same steps on a session that exists.
[[nodiscard]] RunResult run_steps(Session& session);

}  // namespace strata::test
