// Predicts what a save costs: how long it writes and copies, and how long training waits for it. A
// dry run with a save is compared with one without. `plan` and `train` print it.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "strata/engine/training_layout.h"
#include "strata/predict/known_rates.h"

namespace strata {

/// What a save should take.
struct SavePrediction {
  std::optional<double> disk_gbs{};  ///< GB/s (10^9 bytes), fsync included; absent: nobody said
  double write_s = 0;                ///< of all ranks, which share the disk; 0 without its rate
  std::string unknown{};             ///< why the two below are not known; empty: they are
  double copy_s = 0;     ///< what copies take alone: to staging, and from the device to the host
  double blocked_s = 0;  ///< what the steps after the mark take longer
  bool at_most = false;  ///< blocked_s is of a step with fewer passes, which hide less

  /// Returns a line, as `strata plan` prints it.
  [[nodiscard]] std::string to_string() const;
};

/// Predicts a save amid steps, on a device and a disk of this rate. The layout has saves.
[[nodiscard]] SavePrediction predict_save(const TrainingLayout& layout, const RatedDevice& device,
                                          std::optional<double> disk_gbs);

}  // namespace strata
