// These functions measure and print what `train` and `bench` both report at the end of a run or
// around a trace: memory, update times, peak. They are called by the submitting thread between
// steps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/device/trace.h"
#include "strata/predict/lane_report.h"
#include "strata/predict/utilisation.h"
#include "strata/train/session.h"

namespace strata {

/// These are the planned and the measured bytes of the memories that a process takes.
struct MemoryReport {
  std::size_t device_planned = 0;
  std::size_t device_measured = 0;  ///< in use now, as the device counts
  std::size_t host_planned = 0;
  std::size_t host_peak = 0;  ///< most resident memory of the process so far
};
/// Returns what the session planned, and what its process takes of the device now and took of the
/// host.
[[nodiscard]] MemoryReport measure_memory(Session& session);
/// Returns a line for the device and a line for the host.
[[nodiscard]] std::string to_string(const MemoryReport& report);

/// Returns the lines that a person wants to see of a run before its first step: program, model,
/// data, steps, machine, memory and training state. `ranks` is the number of ranks.
[[nodiscard]] std::vector<std::string> summary(Session& session, int ranks);

/// Returns the time of updates in seconds per step, on whatever lanes it ran, of a trace of `steps`
/// steps.
[[nodiscard]] Recorder::WorkTime update_time(const Recorder& recorder, int steps);
/// Returns "busy 2.031 s a step, exposed 0.012 s: 99.4 % hidden under compute".
[[nodiscard]] std::string to_string(const Recorder::WorkTime& updates);

/// Traces the steps `first` and `first + 1`, which `submit` submits; the second shows updates under
/// the next forward. Blocks: it synchronises before and after them.
void trace_two_steps(Session& session, Recorder& recorder, std::int64_t first,
                     const std::function<void(std::int64_t)>& submit);

/// Returns the peak of one device: hardware.peak_tflops, or else what its datasheet says.
[[nodiscard]] DevicePeak device_peak(Session& session);

}  // namespace strata
