// The JSON object of a benchmark of steps: all that was measured, with the setup that it was
// measured on, and what was predicted beside it.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "strata/predict/prediction.h"
#include "strata/train/measured_steps.h"
#include "strata/train/session.h"

namespace strata {

/// How MFU is worked out, in the words of the JSON's keys.
inline constexpr const char* kMfuFormula =
    "flops_per_token * tokens_per_s / (peak_tflops * 1e12 * ranks)";

/// Returns everything that was measured, with the setup that it was measured on.
[[nodiscard]] nlohmann::json json_of(const MeasuredSteps& r, Session& session, int ranks);

/// Adds what is predicted beside what was measured, for the step, its lanes and its work, and the
/// rates that the measured work had.
void add_prediction(nlohmann::json& json, const MeasuredSteps& r, const Session& session,
                    const Prediction& p, const PredictedTrace& traced);

}  // namespace strata
