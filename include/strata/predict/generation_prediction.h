// Predicts how long a load of requests takes to generate, without running it. The load is played
// with lengths alone, which gives its sweeps; sweeps that are alike are timed once, on the dry
// backend and a timeline. `plan`, `generate` and `bench` choose and compare by it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "strata/engine/generation_layout.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/prediction.h"

namespace strata {

/// Requests that are alike.
struct GenerationLoad {
  std::int64_t sequences = 1;
  std::int64_t prompt_tokens = 1;  ///< of each
  std::int64_t drawn_tokens = 1;   ///< of each
};

/// What a load should take on one device.
struct GenerationPrediction {
  std::string unknown;       ///< why there is none; empty: there is one
  std::string rates{};       ///< whose rates it is made with: "H200 (measured)"
  double seconds = 0;        ///< from the first prompt to the last token
  double tokens_per_s = 0;   ///< drawn, over all of that time
  double first_token_s = 0;  ///< until the first token is drawn
  /// Share of the time in sweeps with tokens of prompts, in [0, 1].
  double prompt_share = 0;
  double draw_s = 0;  ///< a sweep of drawn tokens alone, in the mean; 0 if there is none
  double sweeps = 0;
  /// Which lanes the time is made of, as Prediction::critical says it of a step.
  std::vector<Prediction::Part> critical;
  std::size_t records = 0;  ///< submissions that were recorded for it; its time goes by them

  /// Returns a few lines, as `strata plan --generate` prints them.
  [[nodiscard]] std::string to_string() const;
};

/// How closely a load is looked at; less is faster, and misses some percent.
struct PredictionEffort {
  /// Sweeps are alike whose tokens and keys are in the same of so many steps between an amount and
  /// twice that.
  int steps_per_doubling = 4;
  /// Requests beyond so many times those at once are not played, they go on like the middle; 3 at
  /// least.
  std::int64_t batches = 6;
};

/// Predicts a load in this layout on a device. Throws std::invalid_argument if a sequence of the
/// load has no room in it.
[[nodiscard]] GenerationPrediction predict_generation(const GenerationLayout& layout,
                                                      const GenerationLoad& load,
                                                      const RatedDevice& device,
                                                      const PredictionEffort& effort = {});

}  // namespace strata
