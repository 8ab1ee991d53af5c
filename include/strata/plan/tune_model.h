// What a search for the fastest way to train (tune.h) starts from: a model alone, or a run config.
// Which keys the user gave is known after it was read, since those are not searched.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "strata/plan/tune_space.h"

namespace strata {

/// What the user names and asks for.
struct TuneRequest {
  std::string model;                ///< a Hugging Face folder, its config.json, or a run config
  std::vector<std::string> sets{};  ///< "a.b=value", as --set gives them
  std::string backend{};            ///< run.backend; empty: the config's
  std::optional<std::int64_t> tokens{};           ///< of a step of all ranks
  std::optional<std::int64_t> sequence_length{};  ///< data.sequence_length
  std::string grad_clip{};             ///< optimizer.grad_clip, or "none"; empty: the config's
  std::vector<std::string> allowed{};  ///< keys that are searched though the config gives them
};

/// A run of which some keys are still to be found.
struct TuneModel {
  /// It can be planned and run: its tokens are synthetic where the user names no training set.
  RunConfig base;
  /// The same as the user gave it, to be written with what was found.
  RunConfig given;
  std::vector<std::string> option_sets;  ///< what options other than --set change in it, as --set
  std::vector<std::string> keys;         ///< that the file, --set or other options give
  std::vector<std::string> typed_keys;   ///< of them, those of the command line
};

/// Reads the model that the request names. Throws ConfigError and IoError that name what is wrong.
[[nodiscard]] TuneModel load_tune_model(const TuneRequest& request);

/// Returns what is searched for a run on so many ranks: keys that nobody gave and those that the
/// request allows. Throws ConfigError if the step's tokens are no whole rows for each rank, or a
/// key that is allowed is none that can be searched.
[[nodiscard]] TuneSpace tune_space(const TuneModel& model, const TuneRequest& request, int ranks);

}  // namespace strata
