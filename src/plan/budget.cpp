// Measures a machine and turns what was found into limits. Ranks tell each other which pool their
// host memory comes from, so that each counts on its share alone, and then their limits, so that
// all plan by the tightest.

#include "strata/plan/budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <type_traits>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/device/gpu_models.h"
#include "strata/predict/rank_rates.h"

namespace strata {

namespace {

/// It is equal for ranks that take memory from the same pool: one boot of one kernel, and there one
/// control group.
struct MemoryPool {
  char boot[40] = {};
  std::uint64_t group = 0;
};

MemoryPool memory_pool(const HostMemory& host) {
  MemoryPool pool;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(pool.boot, sizeof(pool.boot));
  struct stat folder {};
  if (host.group && ::stat(host.group->folder.c_str(), &folder) == 0) pool.group = folder.st_ino;
  return pool;
}

/// Counts the ranks with this pool, and those on this host, this one included.
void count_sharers(const MemoryPool& own, Ranks& ranks, MachineMemory& machine) {
  const std::vector<std::byte> all =
      ranks.all_gather_host(std::as_bytes(std::span<const MemoryPool>(&own, 1)), Channel::kSubmit);
  machine.sharers = 0;
  machine.ranks_on_host = 0;
  for (std::size_t at = 0; at < all.size(); at += sizeof(own)) {
    machine.sharers += std::memcmp(all.data() + at, &own, sizeof(own)) == 0 ? 1 : 0;
    machine.ranks_on_host += std::memcmp(all.data() + at, own.boot, sizeof(own.boot)) == 0 ? 1 : 0;
  }
}

/// Returns what a run may take of memory that nobody holds. The rest is the system's: a driver
/// keeps a reserve and rounds arenas up to its pages, a kernel has tables of pages.
std::size_t usable_part(std::size_t free) {
  constexpr double kShare = 0.97;
  return static_cast<std::size_t>(kShare * static_cast<double>(free));
}

/// Lowers the device's limit to what can be had now.
void limit_device(Budget& budget, const MachineMemory& machine) {
  if (machine.device.memory_bytes == 0) return;
  const std::size_t usable = machine.device_in_use + usable_part(machine.device.free_bytes);
  if (budget.device_limit && *budget.device_limit <= usable) return;
  budget.device_limit_origin =
      budget.device_limit
          ? "memory.device_limit is " + format_bytes(*budget.device_limit) + ", but "
          : "memory.device_limit is null: ";
  budget.device_limit_origin += "of " + format_bytes(machine.device.memory_bytes) + " " +
                                format_bytes(machine.device.free_bytes) + " are free";
  budget.device_limit = usable;
}

/// Lowers the host's limit to what can be had now. A control group is as hard as a limit that is
/// given. What the system calls available only stands in for one: where memory grows on demand it
/// is too low, and whoever names a limit knows better.
void limit_host(Budget& budget, const MachineMemory& machine) {
  const std::optional<std::size_t> given = budget.host_limit;
  const auto share = [&](std::size_t free) {
    return machine.resident + free / static_cast<std::size_t>(machine.sharers);
  };
  const auto lower = [&](std::size_t bytes, const std::string& found) {
    if (budget.host_limit && *budget.host_limit <= bytes) return;
    budget.host_limit = bytes;
    budget.host_limit_origin =
        given ? "memory.host_limit is " + format_bytes(*given) + ", but " + found
              : "memory.host_limit is null: " + found;
    if (machine.sharers > 1) {
      budget.host_limit_origin += ", for " + std::to_string(machine.sharers) + " ranks";
    }
  };
  if (const std::optional<GroupMemory>& group = machine.host.group) {
    lower(share(group->free_bytes), "the control group " + group->folder.string() + " has " +
                                        format_bytes(group->free_bytes) + " left of its limit of " +
                                        format_bytes(group->limit_bytes));
  }
  if (!machine.host.available_bytes) return;
  const std::size_t usable = share(usable_part(*machine.host.available_bytes));
  if (given) {
    budget.host_available = usable;
  } else {
    lower(usable, "the system says that " + format_bytes(*machine.host.available_bytes) +
                      " are available; where memory grows on demand, name a limit above that");
  }
}

}  // namespace

std::string agree_on_device(const std::string& own, Ranks& ranks) {
  std::array<char, 256> name{};
  own.copy(name.data(), name.size() - 1);
  ranks.broadcast(std::as_writable_bytes(std::span(name)), 0, Channel::kSubmit);
  return name.data();
}

MachineMemory measure_machine(Device& device, Ranks& ranks) {
  MachineMemory machine;
  machine.device = device.info();
  machine.device_in_use = device.device_bytes_in_use();
  machine.host = read_host_memory();
  machine.resident = resident_bytes();
  count_sharers(memory_pool(machine.host), ranks, machine);
  return machine;
}

Budget make_budget(const MemorySection& limits, const MachineMemory& machine) {
  Budget budget;
  if (limits.device_limit) budget.device_limit = limits.device_limit->bytes;
  budget.device_is_host = machine.device.backend == "cpu";
  budget.ranks_on_host = machine.ranks_on_host;
  budget.peak_tflops = machine.device.peak_bf16_tflops;
  budget.link_gbs = link_gbs_of_device(machine.device.name);
  const GpuModel* gpu = gpu_of_device(machine.device.name);
  if (gpu == nullptr || !gpu->owns_host()) {
    budget.link_gbs = shared_link_gbs(budget.link_gbs, machine.ranks_on_host);
  }
  if (!budget.device_is_host) {
    budget.device_overhead = machine.device_in_use;
    limit_device(budget, machine);
  }
  budget.host_overhead = machine.resident;
  if (limits.host_limit) budget.host_limit = limits.host_limit->bytes;
  limit_host(budget, machine);
  return budget;
}

namespace {

/// A budget as ranks send it.
struct SentBudget {
  SentBudget() = default;
  explicit SentBudget(const Budget& b)
      : device_limit(b.device_limit),
        host_limit(b.host_limit),
        host_available(b.host_available),
        device_overhead(b.device_overhead),
        host_overhead(b.host_overhead),
        peak_tflops(b.peak_tflops),
        link_gbs(b.link_gbs),
        device_is_host(b.device_is_host),
        ranks_on_host(b.ranks_on_host) {
    b.device_limit_origin.copy(device_origin.data(), device_origin.size() - 1);
    b.host_limit_origin.copy(host_origin.data(), host_origin.size() - 1);
  }
  [[nodiscard]] Budget received() const {
    return {.device_limit = device_limit,
            .device_limit_origin = device_origin.data(),
            .device_overhead = device_overhead,
            .host_limit = host_limit,
            .host_limit_origin = host_origin.data(),
            .host_available = host_available,
            .host_overhead = host_overhead,
            .peak_tflops = peak_tflops,
            .link_gbs = link_gbs,
            .device_is_host = device_is_host,
            .ranks_on_host = ranks_on_host};
  }

  std::optional<std::size_t> device_limit, host_limit, host_available;
  std::size_t device_overhead = 0, host_overhead = 0;
  double peak_tflops = 0, link_gbs = 0;
  bool device_is_host = false;
  int ranks_on_host = 1;
  std::array<char, 512> device_origin{}, host_origin{};
};

using Limit = std::optional<std::size_t>;

/// Takes over what another rank's limit is, if it is tighter. Returns whether it is.
bool tighten(Limit& limit, const Limit& other) {
  if (!other || (limit && *limit <= *other)) return false;
  limit = other;
  return true;
}

}  // namespace

Budget least_of(const std::vector<Budget>& ranks) {
  Budget least = ranks.front();
  const auto from = [](const std::string& origin, std::size_t rank) {
    return origin + " (on rank " + std::to_string(rank) + ", the tightest)";
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Budget& other = ranks[rank];
    if (tighten(least.device_limit, other.device_limit)) {
      least.device_limit_origin = from(other.device_limit_origin, rank);
    }
    if (tighten(least.host_limit, other.host_limit)) {
      least.host_limit_origin = from(other.host_limit_origin, rank);
    }
    tighten(least.host_available, other.host_available);
    least.device_overhead = std::max(least.device_overhead, other.device_overhead);
    least.host_overhead = std::max(least.host_overhead, other.host_overhead);
    least.peak_tflops = std::min(least.peak_tflops, other.peak_tflops);
    least.link_gbs = std::min(least.link_gbs, other.link_gbs);
    least.ranks_on_host = std::max(least.ranks_on_host, other.ranks_on_host);
  }
  return least;
}

Budget agree_on_budget(const Budget& own, Ranks& ranks) {
  static_assert(std::is_trivially_copyable_v<SentBudget>);
  if (ranks.size() == 1) return own;
  const SentBudget sent(own);
  const std::vector<std::byte> bytes =
      ranks.all_gather_host(std::as_bytes(std::span(&sent, 1)), Channel::kSubmit);
  std::vector<Budget> budgets;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(SentBudget)) {
    SentBudget received;
    std::memcpy(static_cast<void*>(&received), bytes.data() + at, sizeof(received));
    budgets.push_back(received.received());
  }
  return least_of(budgets);
}

std::string totals_text(std::size_t device_bytes, std::size_t host_bytes, const Budget& budget) {
  const auto line = [](std::size_t bytes, std::size_t overhead, const char* of_what,
                       const std::optional<std::size_t>& limit) {
    return format_bytes(bytes) + " (with " + format_bytes(overhead) + of_what + ")" +
           (limit ? " of " + format_bytes(*limit) : std::string()) + "\n";
  };
  return "device in all: " +
         line(device_bytes, budget.device_overhead, " context and libraries", budget.device_limit) +
         "host in all:   " +
         line(host_bytes, budget.host_overhead, " program and libraries", budget.host_limit);
}

}  // namespace strata
