// The host holds the training state and updates it, so its memory and its cores count as much as
// the GPU does.

#include <algorithm>
#include <cmath>

#include "doctor/judge.h"
#include "doctor/worsen.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/device/gpu_models.h"

namespace strata {

namespace {

/// Contexts, libraries and staging take about so much before a model has anything.
constexpr std::size_t kBarelyBytes = 2 * kGiB;
/// Less holds no model that needs streaming.
constexpr std::size_t kLittleBytes = 8 * kGiB;
/// Host memory for each parameter with f32 moments (docs/fitting.md).
constexpr double kStateBytes = 14;
/// Adapters register NCCL's and MPI's buffers, some hundred MiB of each rank.
constexpr std::size_t kLeastLockable = kGiB;
constexpr std::size_t kMuchSwapped = kGiB;
/// Fewer cores starve the threads of a rank; several ranks refuse to start on them if the machine
/// has more (docs/running.md).
constexpr int kFewestCores = 4;
/// AdamW at less than this share of the usual rate holds steps up.
constexpr double kLeastHost = 0.5;

std::string holds(std::size_t bytes) {
  return fmt::format("holds the state of {:.1f} billion parameters",
                     static_cast<double>(bytes) / kStateBytes * 1e-9);
}

/// Adds what too little memory means, if it is too little.
void judge_bytes(Finding& finding, std::size_t free, std::size_t gpu_bytes,
                 const std::string& remedy) {
  if (free < kBarelyBytes) {
    worsen(finding, Verdict::kBad, "hardly any run fits: " + remedy);
  } else if (free < kLittleBytes) {
    worsen(finding, Verdict::kWarn, "only small models fit: " + remedy);
  } else if (free < gpu_bytes / 2) {
    worsen(finding, Verdict::kWarn,
           "the host has less than half of the GPUs' memory, which it is to exceed: " + remedy);
  }
}

Finding judge_memory(const HostFacts& facts, std::size_t gpu_bytes) {
  Finding finding{.name = "host memory", .found = "unknown"};
  if (!facts.memory.available_bytes) return finding;
  const std::size_t free = *facts.memory.available_bytes;
  finding.found = format_bytes(free);
  if (facts.total_bytes) finding.found += " of " + format_bytes(*facts.total_bytes);
  finding.found += " available, " + holds(free);
  judge_bytes(finding, free, gpu_bytes, "end other programs, or take a machine with more memory");
  if (facts.swapped_bytes.value_or(0) > kMuchSwapped) {
    finding.found += ", " + format_bytes(*facts.swapped_bytes) + " swapped out";
    worsen(finding, Verdict::kWarn,
           "memory has been short, and what is swapped out is slow: end other programs, then "
           "'swapoff -a && swapon -a' as root");
  }
  return finding;
}

Finding judge_group(const HostFacts& facts, std::size_t gpu_bytes) {
  Finding finding{.name = "control group", .found = "sets no limit of memory"};
  if (!facts.memory.group) return finding;
  const GroupMemory& group = *facts.memory.group;
  finding.found = format_bytes(group.free_bytes) + " of its limit of " +
                  format_bytes(group.limit_bytes) + " left, " + holds(group.free_bytes);
  // The host's own memory is judged elsewhere.
  if (group.free_bytes >= facts.memory.available_bytes.value_or(0) && facts.memory.available_bytes)
    return finding;
  judge_bytes(finding, group.free_bytes, gpu_bytes,
              "raise the limit: --mem of SLURM, --memory of containers, MemoryMax of systemd");
  return finding;
}

/// `ranks` were started together.
Finding judge_cores(const HostFacts& facts, int ranks) {
  Finding finding{.name = "cores", .found = "unknown"};
  const auto own = static_cast<int>(facts.cores.count());
  if (own == 0) return finding;
  const auto machine = std::max(own, static_cast<int>(facts.machine_cores.count()));
  finding.found = fmt::format("{} of {} usable", own, machine);
  const int granted = static_cast<int>(std::min(std::ceil(facts.quota), 1e6));
  if (granted < own)
    finding.found += fmt::format(", with the time of {:.3g} (control group)", facts.quota);
  if (own < std::min(kFewestCores, machine)) {
    worsen(finding, ranks > 1 ? Verdict::kBad : Verdict::kWarn,
           fmt::format("the machine has more, and a rank wants {} for its threads; several ranks "
                       "refuse to start with fewer: mpirun --bind-to none, srun --cpus-per-task, "
                       "taskset",
                       kFewestCores));
  } else if (std::min(own, granted) < kFewestCores) {
    worsen(finding, Verdict::kWarn,
           fmt::format("a rank wants {} for its threads: give the machine or container more "
                       "(--cpus)",
                       kFewestCores));
  }
  return finding;
}

Finding judge_huge_pages(const HostFacts& facts) {
  Finding finding{.name = "huge pages", .found = facts.huge_pages.value_or("unknown")};
  if (finding.found == "never" || finding.found == "none") {
    worsen(finding, Verdict::kWarn,
           "AdamW and pinning are slower on small pages: 'echo madvise > "
           "/sys/kernel/mm/transparent_hugepage/enabled' as root");
  }
  return finding;
}

Finding judge_lockable(const HostFacts& facts) {
  Finding finding{.name = "locked memory", .found = "no limit"};
  if (!facts.lockable_bytes) return finding;
  finding.found = "limit of " + format_bytes(*facts.lockable_bytes);
  if (facts.locks_beyond) finding.found += ", which this process may exceed";
  if (*facts.lockable_bytes >= kLeastLockable) return finding;
  const std::string remedy =
      "'ulimit -l unlimited', or 'memlock' in /etc/security/limits.conf, LimitMEMLOCK of systemd, "
      "--ulimit memlock=-1 of containers";
  if (!facts.network_adapters.empty() && !facts.locks_beyond) {
    worsen(finding, Verdict::kBad,
           facts.network_adapters.front() +
               " cannot register the buffers of NCCL and MPI, so ranks of several hosts fail: " +
               remedy);
  } else {
    worsen(
        finding, Verdict::kWarn,
        "CUDA's driver does not count what it pins, but network adapters do, so ranks of several "
        "hosts could fail: " +
            remedy);
  }
  return finding;
}

Finding judge_nodes(const HostFacts& facts) {
  Finding finding{.name = "NUMA nodes", .found = "unknown"};
  const std::size_t nodes = facts.nodes.count();
  if (nodes == 0) return finding;
  const std::size_t own = std::min((facts.memory_nodes & facts.nodes).count(), nodes);
  finding.found = fmt::format("memory of {} of {}", own, nodes);
  if (own > 0 && own < nodes) {
    worsen(
        finding, Verdict::kWarn,
        "this process may not take the memory of all nodes: numactl --membind and cpusets of the "
        "batch system limit it");
  }
  return finding;
}

}  // namespace

std::vector<Finding> judge_host(const HostFacts& facts, std::size_t gpu_bytes, int ranks) {
  return {judge_memory(facts, gpu_bytes), judge_group(facts, gpu_bytes), judge_cores(facts, ranks),
          judge_huge_pages(facts),        judge_lockable(facts),         judge_nodes(facts)};
}

Finding judge_rates(const HostRates& rates, const std::string& gpu) {
  Finding finding{.name = "host rates"};
  if (!rates.problem.empty() || rates.updates.empty()) {
    finding.found = rates.problem.empty() ? "not measured" : "not measured: " + rates.problem;
    return finding;
  }
  finding.found = fmt::format("copies {:.1f} GB/s, AdamW", rates.copy_gbs);
  double best = 0;
  for (const HostRates::Update& update : rates.updates) {
    finding.found +=
        fmt::format("{} {:.1f} GB/s by {}", &update == &rates.updates.front() ? "" : ",",
                    update.gbs, update.threads);
    best = std::max(best, update.gbs);
  }
  finding.found += rates.updates.back().threads == 1 ? " thread" : " threads";
  const GpuModel* const model = gpu_of_device(gpu);
  if (model != nullptr && best < kLeastHost * model->host_gbs) {
    worsen(
        finding, Verdict::kWarn,
        fmt::format("hosts of such a GPU usually reach {:.0f} GB/s, so updates may hold steps up: "
                    "give the process more cores, fill all memory channels, end other programs, "
                    "or let the GPU update (optimizer.interleave)",
                    model->host_gbs));
  }
  return finding;
}

}  // namespace strata
