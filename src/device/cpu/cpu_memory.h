#pragma once

#include <cstddef>
#include <memory>

#include "strata/device/device.h"

namespace strata {

/// Memory of the whole machine.
[[nodiscard]] std::size_t host_memory_bytes();

/// Page-aligned host memory, in huge pages where the system has them. While it lives, `bytes` are
/// added to `in_use`, which must outlive it. Throws OutOfMemory.
[[nodiscard]] std::unique_ptr<DeviceMemory> allocate_host_memory(std::size_t bytes,
                                                                 std::size_t& in_use);

}  // namespace strata
