#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "strata/device/trace.h"
#include "strata/plan/lane_report.h"
#include "strata/run/session.h"

namespace strata {

/// Planned and measured bytes of the memories a process takes.
struct MemoryReport {
  std::size_t device_planned = 0;
  std::size_t device_measured = 0;
  std::size_t host_planned = 0;
  std::size_t host_peak = 0;
};
[[nodiscard]] MemoryReport measure_memory(Session& session);
/// One line per memory.
[[nodiscard]] std::string to_string(const MemoryReport& report);

/// AdamW, on the host and of resident units, per step of a trace of `steps` steps.
[[nodiscard]] Recorder::WorkTime update_time(const Recorder& recorder, int steps);
/// "busy 2.031 s a step, exposed 0.012 s: 99.4 % hidden under compute"
[[nodiscard]] std::string to_string(const Recorder::WorkTime& updates);

/// Traces steps `first` and `first + 1` (the second shows updates under the next forward), between
/// two synchronisations.
void trace_two_steps(Session& session, Recorder& recorder, std::int64_t first,
                     const std::function<void(std::int64_t)>& submit);

/// Peak of one device in TFLOP/s: hardware.peak_tflops, else what the device's datasheet says; 0 if
/// unknown.
[[nodiscard]] double peak_tflops(Session& session);

}  // namespace strata
