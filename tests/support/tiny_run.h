// Whole training runs of a tiny model in f64, gathered over their ranks. Tests of schedule and
// train compare such runs with each other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/run/session.h"
#include "support/tiny_config.h"

namespace strata::test {

/// What a run produced, gathered over its ranks.
struct RunResult {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<double>> weights;  ///< final, by Hugging Face name

  bool operator==(const RunResult&) const = default;  ///< bit for bit
};

/// Trains config.run.steps steps at lr config.optimizer.lr on `ranks` ranks, each with a thread and
/// a device of its own.
[[nodiscard]] RunResult run_tiny(const RunConfig& config, int ranks = 1,
                                 const SessionHooks& hooks = {});
/// The same steps on a session that exists.
[[nodiscard]] RunResult run_steps(Session& session, Ranks& ranks);
/// Records the steps of such a run on the first of its ranks, up to the end of their updates, with
/// one kind of wait left out.
void trace_run(Recorder& recorder, const RunConfig& config, int ranks = 1,
               std::optional<WaitFor> omit = {});
/// The master weights of all ranks by tensor name.
[[nodiscard]] std::map<std::string, std::vector<double>> gather_weights(Session& session,
                                                                        Ranks& ranks);
/// The gradients of the last step as the optimizer read them, likewise.
[[nodiscard]] std::map<std::string, std::vector<double>> gather_gradients(Session& session,
                                                                          Ranks& ranks);
/// ||a - b|| / ||b||; infinity if sizes differ or a value is not finite.
[[nodiscard]] double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace strata::test
