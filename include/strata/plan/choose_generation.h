// Decides how a load of requests is generated: how many sequences at once, and where keys, values
// and weights live. What is left open is chosen by predicted time, where a device's rates are
// known, else by a rule.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "strata/plan/generation_setup.h"
#include "strata/predict/generation_prediction.h"

namespace strata {

/// What is asked for.
struct GenerationWish {
  GenerationNeeds needs{};                  ///< but the sequences at once
  std::optional<std::int64_t> sequences{};  ///< at once; absent: to be chosen
  GenerationLoad load{};
};

/// What was chosen.
struct GenerationChoice {
  GenerationSetup setup;
  GenerationPrediction prediction;
  std::string text;         ///< a line about what was chosen by it; empty if nothing was
  std::size_t records = 0;  ///< of all predictions that were made for it; its time goes by them
};

/// Chooses for a device. Without a prediction there are 16 sequences at once, or as
/// many as the load has or memory holds. Throws OutOfMemory as make_generation_setup does.
[[nodiscard]] GenerationChoice choose_generation(const LlamaConfig& model,
                                                 const GenerationWish& wish, const Budget& budget,
                                                 const RatedDevice& device);

}  // namespace strata
