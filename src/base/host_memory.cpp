// Reads memory limits and use from /proc and the control groups' folders. Both versions' files are
// tried in every folder, since a machine may have either; a file that is missing sets no limit.

#include "strata/base/host_memory.h"

#include <fstream>
#include <string>

#include "base/control_groups.h"
#include "strata/base/bytes.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns the number that a file begins with; absent if there is no such file or it says "max".
std::optional<std::size_t> number_in(const fs::path& file) {
  std::size_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

/// Returns the sum of the two named lines of a memory.stat; a line that is missing counts 0.
std::size_t stat_bytes(const fs::path& file, const std::string& first, const std::string& second) {
  std::ifstream in(file);
  std::size_t sum = 0;
  std::string name;
  for (std::size_t bytes = 0; in >> name >> bytes;) {
    if (name == first || name == second) sum += bytes;
  }
  return sum;
}

std::size_t difference(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

/// Returns what one group's folder says; absent if it sets no limit.
std::optional<GroupMemory> memory_of(const fs::path& folder) {
  const auto left = [&](std::size_t limit, std::size_t current, std::size_t caches) {
    return GroupMemory{folder, limit, difference(limit, difference(current, caches))};
  };
  if (const auto limit = number_in(folder / "memory.max")) {  // version 2
    return left(*limit, number_in(folder / "memory.current").value_or(0),
                stat_bytes(folder / "memory.stat", "inactive_file", "active_file"));
  }
  // Version 1 writes "no limit" as the largest number of whole pages.
  constexpr std::size_t kNoLimit = std::size_t{1} << 62;
  const auto limit = number_in(folder / "memory.limit_in_bytes");
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  return left(*limit, number_in(folder / "memory.usage_in_bytes").value_or(0),
              stat_bytes(folder / "memory.stat", "total_inactive_file", "total_active_file"));
}

std::optional<std::size_t> available_bytes(const fs::path& meminfo) {
  std::ifstream in(meminfo);
  std::string name;
  std::string unit;
  for (std::size_t kib = 0; in >> name >> kib; std::getline(in, unit)) {
    if (name == "MemAvailable:") return kib * kKiB;
  }
  return std::nullopt;
}

std::size_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (status >> word) {
    if (word == key && status >> kib) return kib * kKiB;
  }
  return 0;
}

}  // namespace

std::optional<GroupMemory> read_group_memory(const fs::path& root) {
  std::optional<GroupMemory> least;
  for (const fs::path& folder : control_groups("memory", root)) {
    const std::optional<GroupMemory> found = memory_of(folder);
    if (!found) continue;
    if (!least || found->free_bytes < least->free_bytes) least = found;
  }
  return least;
}

HostMemory read_host_memory(const fs::path& root) {
  return {.group = read_group_memory(root),
          .available_bytes = available_bytes(root / "proc/meminfo")};
}

std::size_t resident_bytes() { return status_bytes("VmRSS:"); }
std::size_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace strata
