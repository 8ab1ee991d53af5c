// Submits steps of a layout to the dry backend, for predictions: of a step, and of what a save adds
// to it. What a prediction knows and does not know of a layout is decided here, once for both.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predict/reduced_layout.h"
#include "strata/device/trace.h"
#include "strata/engine/training_layout.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/paper_trace.h"

namespace strata {

/// Which steps are submitted, from the first of a run on.
struct DrySteps {
  int steps = 1;
  std::optional<int> saved = std::nullopt;  ///< the state after this one is saved
};

/// Submits steps, and what is then left of their updates. `start` is called when the machine is set
/// up. Returns what `count` says at the end of each step. Nothing is written to any file.
std::vector<std::size_t> submit_steps(const TrainingLayout& layout, const DrySteps& which,
                                      TraceSink& trace, const std::function<void()>& start,
                                      const std::function<std::size_t()>& count);

/// Returns what work of a reduced step stands for, so that it is as long as a whole one but for its
/// passes.
[[nodiscard]] PaperWeights weights_of(const TrainingLayout& layout, const StepSize& size);

/// Returns what is known of the device, for the ranks of the layout.
[[nodiscard]] KnownRates rates_of(const TrainingLayout& layout, const RatedDevice& device);

/// Returns why a step cannot be predicted, or nothing if it can.
[[nodiscard]] std::string why_unpredictable(const TrainingLayout& layout, const RatedDevice& device,
                                            const KnownRates& known);
/// Returns likewise why nothing can be predicted of a device, and what would help.
[[nodiscard]] std::string why_rates_are_missing(std::string_view device, const KnownRates& known);

}  // namespace strata
