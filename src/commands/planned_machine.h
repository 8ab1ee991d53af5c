// The machine that a plan is made for, which need not be this one: a GPU that is named, or the one
// that is here, with nobody else on it. The commands that plan without a session share it.

#pragma once

#include <string>

#include "strata/config/config.h"
#include "strata/device/device.h"
#include "strata/plan/budget.h"

namespace strata {

/// Returns the backend that is planned for: "auto" is a GPU, because that is what people ask a plan
/// for.
[[nodiscard]] BackendChoice planned_backend(const RunConfig& config);
/// Returns the device of the plan: that of `--gpu`, or this machine's, or one without a name and
/// without a limit of memory. Throws ConfigError if the options contradict each other.
[[nodiscard]] DeviceInfo planned_device(BackendChoice backend, const std::string& gpu);
/// Returns a machine with this device on which nobody else takes memory.
[[nodiscard]] MachineMemory planned_machine(BackendChoice backend, DeviceInfo device);
/// Returns a line about a device with a name, empty for others.
[[nodiscard]] std::string device_text(const DeviceInfo& device);

}  // namespace strata
