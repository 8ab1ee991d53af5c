// Runs of a tiny model in f64 without a session, gathered over their ranks. Tests of schedule and
// plan compare such runs with each other.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/tiny_engine.h"

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
                                 const TinyHooks& hooks = {});
/// The same steps on an engine that exists.
[[nodiscard]] RunResult run_steps(TinyEngine& engine);
/// Records the steps of such a run on the first of its ranks, up to the end of their updates, with
/// one kind of wait left out.
void trace_run(Recorder& recorder, const RunConfig& config, int ranks = 1,
               std::optional<WaitFor> omit = {});
/// Returns the first race of a trace as text, or "".
[[nodiscard]] std::string first_race(const Recorder& recorder);
/// The master weights of all ranks by tensor name.
[[nodiscard]] std::map<std::string, std::vector<double>> gather_weights(const TrainingState& state,
                                                                        Ranks& ranks);
/// The gradients of the last step as the optimizer read them, of all ranks by tensor name.
[[nodiscard]] std::map<std::string, std::vector<double>> gather_gradients(
    const TrainingState& state, Ranks& ranks);
/// The bytes of weights, low halves and moments, tensor by tensor: everything that an update
/// changes.
using StateBytes = std::vector<std::vector<std::byte>>;
/// Returns those of a rank's blocks, whose memory the host reads wherever it is: on the cpu
/// backend.
[[nodiscard]] StateBytes state_bytes(TrainingState& state);
/// ||a - b|| / ||b||; infinity if sizes differ or a value is not finite.
[[nodiscard]] double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace strata::test
