// How much memory this process holds and how much the host still has for it, as Linux and its
// control groups tell. The memory budget, the start-up report and messages about failed allocations
// ask. A figure that the system does not give is absent or 0: nothing here throws.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace strata {

/// What the control group that leaves this process the least memory says.
struct GroupMemory {
  std::filesystem::path folder;
  std::size_t limit_bytes = 0;
  /// The limit minus what the group's processes hold now, this one included. File caches do not
  /// count: the kernel drops them before it ends a process.
  std::size_t free_bytes = 0;
};

/// Host memory that this process could still take.
struct HostMemory {
  std::optional<GroupMemory> group;  ///< absent: no control group limits memory
  /// MemAvailable of /proc/meminfo; absent if it cannot be read. Virtual machines whose memory
  /// grows on demand report too little.
  std::optional<std::size_t> available_bytes;
};

/// Reads /proc and /sys: control groups of version 1 and 2, the process's own and all above it.
/// `root` stands for "/" in tests. The first returns the groups' part of the second.
[[nodiscard]] std::optional<GroupMemory> read_group_memory(const std::filesystem::path& root = "/");
[[nodiscard]] HostMemory read_host_memory(const std::filesystem::path& root = "/");

/// Returns the bytes of memory that this process holds now (VmRSS), or 0 if the system does not
/// say.
[[nodiscard]] std::size_t resident_bytes();
/// Returns the most bytes of memory that this process has held so far (VmHWM), or 0 if the system
/// does not say.
[[nodiscard]] std::size_t peak_resident_bytes();

}  // namespace strata
