// Reads what Linux says of a machine and of what this process may take of it.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "doctor/machine_facts.h"

namespace strata {

/// Returns how many bytes this process may lock, or nothing if there is no limit.
[[nodiscard]] std::optional<std::size_t> lockable_bytes();

/// Reads /proc and /sys below `root`; `lockable` is what lockable_bytes() says. Throws nothing.
[[nodiscard]] HostFacts read_host(const std::filesystem::path& root,
                                  std::optional<std::size_t> lockable);

}  // namespace strata
