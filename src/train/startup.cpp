// The parts of a start get their names here: keys for JSON files, and words for people. A figure
// that is added to StartupTimes needs a line in both.

#include "strata/train/startup.h"

#include "strata/base/log.h"

namespace strata {

std::vector<std::pair<std::string_view, double>> parts_of(const StartupTimes& t) {
  return {{"startup_program_s", t.program_s}, {"startup_machine_s", t.machine_s},
          {"startup_data_s", t.data_s},       {"startup_plans_s", t.plans_s},
          {"startup_device_s", t.device_s},   {"startup_pinned_s", t.pinned_s},
          {"startup_stores_s", t.stores_s},   {"startup_weights_s", t.weights_s},
          {"first_step_begun_s", t.begun_s},  {"first_step_ended_s", t.ended_s}};
}

std::string to_string(const StartupTimes& t) {
  return fmt::format(
      "first step after {:.1f} s (program {:.1f}, machine {:.1f}, data {:.1f}, plans {:.1f}, "
      "device "
      "memory {:.1f}, pinned memory {:.1f}, stores {:.1f}, weights {:.1f}), its end after {:.1f} s",
      t.begun_s, t.program_s, t.machine_s, t.data_s, t.plans_s, t.device_s, t.pinned_s, t.stores_s,
      t.weights_s, t.ended_s);
}

}  // namespace strata
