// Steps on synthetic tokens that are timed and traced: what `bench` prints, and what `tune`
// compares predictions with.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/config/config.h"
#include "strata/device/trace.h"
#include "strata/predict/lane_report.h"
#include "strata/train/session.h"
#include "strata/train/step_report.h"

namespace strata {

/// This is what was measured on this rank.
struct MeasuredSteps {
  std::vector<double> step_s;    ///< of the measured steps
  std::vector<double> traced_s;  ///< of the traced ones
  std::int64_t missed = 0;       ///< of them, those whose early updates were undone
  std::int64_t targets = 0;      ///< of the measured steps, those that count
  double attended = 1;           ///< share of attention that document masks leave, mean of a step
  double mean_s = 0;             ///< from the first measured step to the end of all pending updates
  LinkBytes link;                ///< per step
  std::vector<LaneReport> lanes;
  Recorder::WorkTime updates;  ///< per step, of the traced ones
  std::vector<WorkReport> work;
  std::size_t races = 0;
  MemoryReport memory;
};

/// Returns a run of so many steps that trains on synthetic tokens and traces two steps at the end,
/// so that what the trace takes is planned. Throws ConfigError if it has no steps.
[[nodiscard]] RunConfig synthetic_run(const RunConfig& config, std::int64_t steps);

/// Runs warm-up steps, so many measured ones and two traced ones, of a session of a synthetic run
/// whose trace is the recorder, and logs when each of them begins. Rates of the link and of lanes
/// are means of a step. All ranks call it; it blocks.
[[nodiscard]] MeasuredSteps measure_steps(Session& session, Recorder& recorder, std::int64_t steps);

/// Returns the rates that the traced work had, as `hardware` takes them: those of one rank alone on
/// its host.
[[nodiscard]] HardwareSection rates_seen(const MeasuredSteps& measured, const Session& session);

}  // namespace strata
