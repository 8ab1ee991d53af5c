// Runs sessions on ranks that are threads.

#include "support/session_run.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "support/thread_ranks.h"

namespace strata::test {

RunResult run_steps(Session& session) {
  RunResult result;
  const RunConfig& config = session.config();
  for (std::int64_t step = 0; step < config.run.steps; ++step) {
    session.submit(step, config.optimizer.lr);
  }
  session.synchronize();
  for (const FinishedStep& finished : session.take_finished()) {
    result.losses.push_back(finished.outcome.loss.value());
    result.norms.push_back(finished.outcome.grad_norm);
  }
  result.weights = gather_weights(session.state(), session.groups().shard());
  return result;
}

RunResult run_session(const RunConfig& config, int ranks, const SessionHooks& hooks, int on_host) {
  std::mutex mutex;
  RunResult result;
  run_ranks(
      ranks,
      [&](Ranks& group) {
        Session session(config, group, hooks);
        RunResult own = run_steps(session);
        const std::lock_guard lock(mutex);
        if (group.rank() == 0) result = std::move(own);
      },
      on_host);
  return result;
}

}  // namespace strata::test
