// What `tune` is given to start from: a model alone, or a run config. Which keys the user gave is
// known afterwards, since those are not searched.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/plan/tune_space.h"

namespace strata {

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

/// Reads the model that the options name. Throws ConfigError and IoError that name what is wrong.
[[nodiscard]] TuneModel load_tune_model(const TuneOptions& options);

/// Returns what is searched for a run on so many ranks: keys that nobody gave and those that the
/// options allow. Throws ConfigError if the step's tokens are no whole rows for each rank, or a key
/// that is allowed is none that can be searched.
[[nodiscard]] TuneSpace tune_space(const TuneModel& model, const TuneOptions& options, int ranks);

}  // namespace strata
