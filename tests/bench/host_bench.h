// The parts of host_bench: copies, pinning, AdamW and attention. host_bench.cpp makes the backends
// and calls them in turn.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "strata/ops/backend.h"

namespace strata::bench {

/// When the submissions of each lane ran, as the device and the host lane stamp them.
class LaneTimes;

/// Each prints its figures and appends them to `results` as objects with a "name".
void bench_copies(Backend& backend, LaneTimes& times, nlohmann::json& results);
void bench_pinning(Device& device, nlohmann::json& results);
/// On cuda also under copies and matrix products.
void bench_adamw(Backend& backend, LaneTimes& times, nlohmann::json& results);
/// On cuda also under copies in.
void bench_host_attention(Backend& backend, LaneTimes& times, nlohmann::json& results);

/// Seconds in which the vendor's allocator gives that much pinned memory; 0 without a vendor.
[[nodiscard]] double vendor_pinning_seconds(std::size_t bytes);

}  // namespace strata::bench
