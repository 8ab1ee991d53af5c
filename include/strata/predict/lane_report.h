// Sums up a trace: where the time of its steps went, by lane and by sort of work. Traces of the
// device and of predictions are summed up alike, so that `bench` can set one beside the other.

#pragma once

#include <string>
#include <vector>

#include "strata/device/trace.h"

namespace strata {

/// Where the time of traced steps went.
struct LaneReport {
  std::string lane;
  double busy_s = 0;     ///< work ran on the lane
  double exposed_s = 0;  ///< compute stood still and waited for the lane
};
/// Returns the seconds of a step for each lane, from a trace of `steps` steps.
[[nodiscard]] std::vector<LaneReport> lane_times(const Recorder& recorder, int steps);

/// What submissions of one sort took: those of one name, lane, kind and number of FLOPs.
struct WorkReport {
  std::string lane;
  std::string name;
  CostKind kind = CostKind::kMemory;
  double flops = 0;   ///< of each; 0: what moves bytes
  double bytes = 0;   ///< of each, the mean
  double count = 0;   ///< a step
  double busy_s = 0;  ///< a step, of all
};
/// Returns a report for each sort of work of a trace of `steps` steps, those that took longest
/// first.
[[nodiscard]] std::vector<WorkReport> work_times(const Recorder& recorder, int steps);

}  // namespace strata
