// What a user will probably type when a training run is over: how its model is tried out, or how
// the run goes on. The trainer logs it as the last line.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/config/config.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

/// What a run leaves when it is over.
struct EndedRun {
  const RunConfig& config;                  ///< resolved
  const CheckpointPlace& place;             ///< of its checkpoints
  std::int64_t steps = 0;                   ///< that are done
  bool is_saved = false;                    ///< the last state, in the run's own folder
  std::optional<std::int64_t> saved{};      ///< steps of the last checkpoint that was saved
  std::optional<std::int64_t> best_step{};  ///< with the lowest validation loss
  bool interrupted = false;
  bool lacks_weights = false;  ///< the last save of weights alone has failed
};

/// Returns the commands, with what the user should know about the last state.
[[nodiscard]] std::string commands_after(const EndedRun& run);

}  // namespace strata
