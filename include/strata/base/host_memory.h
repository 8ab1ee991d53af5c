#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace strata {

/// What the tightest control group of this process leaves.
struct GroupMemory {
  std::filesystem::path folder;
  std::size_t limit_bytes = 0;
  /// Limit minus what the group's processes hold now, this one included. File caches do not count:
  /// the kernel drops them before it ends a process.
  std::size_t free_bytes = 0;
};

/// Host memory that a process could still take.
struct HostMemory {
  std::optional<GroupMemory> group;  ///< absent: no control group limits memory
  /// MemAvailable of /proc/meminfo. Virtual machines whose memory grows on demand report too
  /// little.
  std::optional<std::size_t> available_bytes;
};

/// Reads /proc and /sys (control groups of version 1 and 2, the process's own and all above it).
/// `root` stands for "/" in tests.
[[nodiscard]] HostMemory read_host_memory(const std::filesystem::path& root = "/");

/// Resident memory of this process now (VmRSS), bytes; 0 if the system does not say.
[[nodiscard]] std::size_t resident_bytes();
/// Its peak so far (VmHWM).
[[nodiscard]] std::size_t peak_resident_bytes();

}  // namespace strata
