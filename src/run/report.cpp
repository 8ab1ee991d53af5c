// The figures of a report come from the device, the process and the recorder. They are put into
// words here, so that `train` and `bench` say them alike.

#include "strata/run/report.h"

#include "strata/base/bytes.h"
#include "strata/base/host_memory.h"
#include "strata/base/log.h"
#include "strata/ops/optimizer.h"

namespace strata {

MemoryReport measure_memory(Session& session) {
  return {.device_planned = session.setup().device_bytes(),
          .device_measured = session.device().device_bytes_in_use(),
          .host_planned = session.setup().host_bytes(),
          .host_peak = peak_resident_bytes()};
}

std::string to_string(const MemoryReport& r) {
  return "device: planned " + format_bytes(r.device_planned) + ", measured " +
         format_bytes(r.device_measured) + "\nhost:   planned " + format_bytes(r.host_planned) +
         ", peak " + format_bytes(r.host_peak);
}

Recorder::WorkTime update_time(const Recorder& recorder, int steps) {
  const Recorder::WorkTime all = recorder.work_time(AdamW::kName);
  return {.busy_s = all.busy_s / steps, .exposed_s = all.exposed_s / steps};
}

std::string to_string(const Recorder::WorkTime& updates) {
  return fmt::format("busy {:.3f} s a step, exposed {:.3f} s: {:.1f} % hidden under compute",
                     updates.busy_s, updates.exposed_s, 100 * updates.hidden());
}

void trace_two_steps(Session& session, Recorder& recorder, std::int64_t first,
                     const std::function<void(std::int64_t)>& submit) {
  session.synchronize();
  recorder.start();
  submit(first);
  submit(first + 1);
  session.synchronize();
  recorder.stop();
}

DevicePeak device_peak(Session& session) {
  return device_peak(session.setup().config.hardware, session.device().info().peak_bf16_tflops);
}

}  // namespace strata
