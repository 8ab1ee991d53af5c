// Predicts how long a step takes without running it: a dry run records the work of a few steps, and
// a timeline gives each piece the time that the rates of a device say. The planner compares layouts
// by it, `plan`, `train` and `bench` print it.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/trace.h"
#include "strata/engine/training_layout.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/lane_report.h"

namespace strata {

/// What a step should take, on every rank, by the work that a dry run records and the rates of a
/// device.
struct Prediction {
  std::string unknown;      ///< why there is none; empty: there is one
  std::string rates{};      ///< whose rates it is made with: "H200 (measured)"
  double step_s = 0;        ///< of a step amid many
  bool reduced = false;     ///< predicted by a smaller step
  std::size_t records = 0;  ///< submissions that were recorded for it; its time goes by them
  double once_s = 0;        ///< what n steps take beyond n times that: first loads, last updates
  double tokens_per_s = 0;  ///< of all ranks
  int ranks = 1;
  std::optional<double> mfu{};  ///< in [0, 1]; absent where the device's peak is unknown
  std::string warning{};        ///< what to tell the user of an MFU that cannot be
  bool masked = false;     ///< data.document_mask leaves out work that is counted: an upper bound
  bool estimated = false;  ///< rates are of a datasheet: nobody has measured such a device
  /// Model FLOPs of a rank, TFLOP/s, that the best published program reaches on such a device and
  /// that the prediction would exceed; 0: it does not.
  double held_to_tflops = 0;
  std::vector<LaneReport> lanes;  ///< of a step amid many
  /// Which lanes a step is made of: each one's share of the chain of work in which everything
  /// waited for what was before it; largest first, in [0, 1].
  struct Part {
    std::string name;
    double share = 0;
  };
  std::vector<Part> critical;

  /// Returns the seconds of a step in the mean of a run of so many steps.
  [[nodiscard]] double mean_s(double steps) const { return step_s + once_s / steps; }
  /// Returns a few lines, as `strata plan` prints them.
  [[nodiscard]] std::string to_string() const;
};

/// Submits the first steps of the run of `layout.state.rank` of `layout.state.ranks`, and what is
/// then left of their updates, to a machine that takes no memory and only records. Returns the
/// number of records up to the end of each step. Neither it nor any prediction talks to other
/// ranks: none is given a connection to them.
std::vector<std::size_t> record_steps(const TrainingLayout& layout, int steps, Recorder& recorder);

/// A step of so many units times sub-batches times passes is predicted whole, where seven chunks of
/// a layer's weights count as a sub-batch. A larger one is predicted by a reduced one, which costs
/// about as much; docs/prediction.md says what that loses.
inline constexpr double kWholeCells = 2048;

/// Predicts a run on a device. It takes no memory but for the recorded steps, which
/// are those of a smaller run if there are too many layers, chunks, sub-batches and passes.
[[nodiscard]] Prediction predict(const TrainingLayout& layout, const RatedDevice& device,
                                 double whole_cells = kWholeCells);

/// What a trace of two steps from an idle machine on, and of what is then left of their updates,
/// would show, per step; empty if the step is unknown, or predicted by a reduced one.
struct PredictedTrace {
  std::vector<LaneReport> lanes;
  std::vector<WorkReport> work;
};
[[nodiscard]] PredictedTrace predict_trace(const TrainingLayout& layout, const RatedDevice& device);

/// A step amid many, and for how long its kernels run.
struct StepTimes {
  double step_s = 0;
  double compute_s = 0;
};
/// Returns what predict() says of these alone, in less time, or nothing if the step is unknown.
[[nodiscard]] std::optional<StepTimes> predict_times(const TrainingLayout& layout,
                                                     const RatedDevice& device,
                                                     double whole_cells = kWholeCells);

/// Returns StepTimes::step_s alone.
[[nodiscard]] std::optional<double> predict_step_s(const TrainingLayout& layout,
                                                   const RatedDevice& device,
                                                   double whole_cells = kWholeCells);

}  // namespace strata
