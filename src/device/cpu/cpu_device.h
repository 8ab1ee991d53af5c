#pragma once

#include <memory>

#include "strata/device/device.h"

namespace strata {

/// The abstract machine on host threads: every lane is a queue, "device" and "pinned" memory are
/// plain memory of the host, and host tasks may run on any lane.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);

}  // namespace strata
