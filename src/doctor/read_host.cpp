// Each function reads one file; a file that is missing leaves a fact unknown.

#include "doctor/read_host.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "strata/base/bytes.h"
#include "strata/base/thread_pool.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns what stands behind "key:" in a file of such lines; empty if there is no such line.
std::string line_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key + ":")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", key.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::string first_line_of_file(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

/// Returns the bytes of a line of /proc/meminfo, which counts KiB.
std::optional<std::size_t> memory_bytes(const fs::path& root, const std::string& key) {
  std::istringstream line(line_of(root / "proc/meminfo", key));
  std::size_t kib = 0;
  if (line >> kib) return kib * kKiB;
  return std::nullopt;
}

/// Returns the word in brackets of "always [madvise] never".
std::optional<std::string> huge_pages(const fs::path& root) {
  std::error_code error;
  const fs::path folder = root / "sys/kernel/mm";
  if (!fs::exists(folder, error)) return std::nullopt;
  if (!fs::exists(folder / "transparent_hugepage", error)) return "none";
  const std::string line = first_line_of_file(folder / "transparent_hugepage/enabled");
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  return line.substr(begin + 1, end - begin - 1);
}

/// Returns whether the process has CAP_IPC_LOCK.
bool locks_beyond(const fs::path& root) {
  constexpr int kIpcLock = 14;  // capabilities(7)
  std::istringstream text(line_of(root / "proc/self/status", "CapEff"));
  std::uint64_t capabilities = 0;
  return text >> std::hex >> capabilities && (capabilities >> kIpcLock & 1) != 0;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::optional<std::size_t> lockable_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return static_cast<std::size_t>(limit.rlim_cur);
}

HostFacts read_host(const fs::path& root, std::optional<std::size_t> lockable) {
  HostFacts facts;
  facts.memory = read_host_memory(root);
  facts.total_bytes = memory_bytes(root, "MemTotal");
  const auto swap = memory_bytes(root, "SwapTotal");
  const auto free_swap = memory_bytes(root, "SwapFree");
  if (swap && free_swap) facts.swapped_bytes = *swap - std::min(*swap, *free_swap);
  const fs::path status = root / "proc/self/status";
  facts.cores = cores_of_list(line_of(status, "Cpus_allowed_list"));
  facts.memory_nodes = cores_of_list(line_of(status, "Mems_allowed_list"));
  facts.machine_cores = cores_of_list(first_line_of_file(root / "sys/devices/system/cpu/online"));
  facts.nodes = cores_of_list(first_line_of_file(root / "sys/devices/system/node/online"));
  facts.quota = cores_by_quota(root);
  facts.huge_pages = huge_pages(root);
  facts.lockable_bytes = lockable;
  facts.locks_beyond = locks_beyond(root);
  facts.network_adapters = names_in(root / "sys/class/infiniband");
  return facts;
}

}  // namespace strata
