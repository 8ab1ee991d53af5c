// Measures what bounds a run beside the GPU: AdamW on the host, and the links over which state
// streams. Short measurements, good to about 10 %: what is far off is found, and host_bench of the
// tests measures more exactly.

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "doctor/machine_facts.h"
#include "strata/base/process.h"
#include "strata/device/device.h"

namespace strata {

/// Returns seconds that never go back.
using RateClock = std::function<double()>;

/// Measures copies and AdamW on this host by 1, 2, 4 ... and all `most_threads`, in about 0.2 s
/// each, with the operators that training has. Takes 256 MiB; says so where `free_bytes` do not
/// have them.
[[nodiscard]] HostRates measure_host(int most_threads, std::size_t free_bytes,
                                     const RateClock& clock = steady_seconds);

/// Measures copies between pinned and device memory, `bytes` in a piece, `pieces` of them in each
/// direction. Throws what a device without so much memory throws.
[[nodiscard]] LinkRates measure_link(Device& device, std::size_t bytes, int pieces,
                                     const RateClock& clock = steady_seconds);
/// Does so on each of these GPUs, `devices` as CUDA counts them; what fails is told by `problem`.
[[nodiscard]] std::vector<LinkRates> measure_links(const std::vector<DeviceInfo>& devices);

}  // namespace strata
