// Host memory for the cpu backend, which stands for device, pinned and pageable memory alike. It is
// mapped, not allocated, so that it goes back to the system when it is freed.
#pragma once

#include <cstddef>
#include <memory>

#include "strata/base/host_memory.h"
#include "strata/device/device.h"

namespace strata {

/// Returns the bytes of memory of the machine, or the limit of its control group if that is less.
[[nodiscard]] std::size_t host_memory_bytes(const std::optional<GroupMemory>& group);

/// Returns page-aligned host memory, in huge pages where the system has them. While it lives,
/// `bytes` are added to `in_use`, which must outlive it. Throws OutOfMemory if the machine cannot
/// have so much.
[[nodiscard]] std::unique_ptr<DeviceMemory> allocate_host_memory(std::size_t bytes,
                                                                 std::size_t& in_use);

}  // namespace strata
