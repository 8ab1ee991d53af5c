// Makes the device of the cpu backend. Only the backend's maker and tests of the device call it.
#pragma once

#include <chrono>
#include <memory>

#include "strata/device/device.h"

namespace strata {

/// Makes the abstract machine on host threads: every lane is a queue, "device" and "pinned" memory
/// are plain memory of the host, and host tasks may run on any lane. How lanes execute is
/// `options.execution`. The shuffled execution holds work back until the submitting thread has been
/// silent for `silence`: it may then be waiting for something that needs the work, such as another
/// rank.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(
    const DeviceOptions& options,
    std::chrono::milliseconds silence = std::chrono::milliseconds(20));

}  // namespace strata
