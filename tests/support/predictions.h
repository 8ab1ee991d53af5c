// Predicts the steps, traces and saves of a setup on a device that a test names.

#pragma once

#include <optional>
#include <string_view>

#include "strata/plan/setup.h"
#include "strata/predict/prediction.h"
#include "strata/predict/save_prediction.h"

namespace strata {

inline Prediction predict(const Setup& setup, std::string_view device,
                          double whole_cells = kWholeCells) {
  return predict(setup, setup.rated(device), whole_cells);
}

inline std::optional<double> predict_step_s(const Setup& setup, std::string_view device,
                                            double whole_cells = kWholeCells) {
  return predict_step_s(setup, setup.rated(device), whole_cells);
}

inline PredictedTrace predict_trace(const Setup& setup, std::string_view device) {
  return predict_trace(setup, setup.rated(device));
}

inline SavePrediction predict_save(const Setup& setup, std::string_view device,
                                   std::optional<double> disk_gbs) {
  return predict_save(setup, setup.rated(device), disk_gbs);
}

}  // namespace strata
