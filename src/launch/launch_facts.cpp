// Gathers what ranks find about their places. Ranks first tell each other on which machine they
// are, since a rank's place there says which GPU it takes; then each looks at that GPU, and all
// exchange the rest.

#include "strata/launch/launch_facts.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "strata/base/log.h"
#include "strata/base/numa.h"
#include "strata/comm/collectives.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

namespace {

/// Returns the facts of all ranks, as they are so far.
std::vector<LaunchFacts> exchange(const LaunchFacts& own, Ranks& ranks) {
  static_assert(std::is_trivially_copyable_v<LaunchFacts>);
  const std::vector<std::byte> bytes =
      ranks.all_gather_host(std::as_bytes(std::span(&own, 1)), Channel::kSubmit);
  std::vector<LaunchFacts> all(static_cast<std::size_t>(ranks.size()));
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), bytes.size());
  return all;
}

void add_gpu(LaunchFacts& facts, int local) {
  facts.visible_gpus = cuda_device_count();
  const std::optional<DeviceInfo> info =
      cuda_device_info(gpu_of_local_rank(local, facts.visible_gpus));
  if (!info) return;
  facts.gpu = info->name;
  facts.pci_bus_id = info->pci_bus_id;
  facts.uuid = info->uuid;
  facts.driver_version = info->driver_version;
  facts.runtime_version = info->runtime_version;
  facts.numa_node = numa_node_of(info->pci_bus_id);
  facts.cores.near = cores_of_node(facts.numa_node);
}

void add_nccl(LaunchFacts& facts) {
  const NcclFound found = find_nccl();
  facts.nccl = found.version;
  facts.nccl_problem = found.problem;
  if (!found.problem.empty()) log::warn("{}", found.problem);
}

}  // namespace

int local_rank(const std::vector<LaunchFacts>& ranks, int rank) {
  const auto own = ranks.begin() + rank;
  return static_cast<int>(std::count_if(ranks.begin(), own, [&](const LaunchFacts& other) {
    return other.cores.machine == own->cores.machine;
  }));
}

int local_ranks(const std::vector<LaunchFacts>& ranks, int rank) {
  const auto own = ranks.begin() + rank;
  return static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](const LaunchFacts& other) {
    return other.cores.machine == own->cores.machine;
  }));
}

int gpu_of_local_rank(int local_rank, int visible_gpus) {
  return local_rank < visible_gpus ? local_rank : 0;
}

std::vector<LaunchFacts> gather_launch_facts(BackendKind kind, Ranks& ranks) {
  LaunchFacts own;
  fail_together(ranks, [&] { own.launched_on_host = launched_on_host().value_or(0); });
  own.host = ranks.host();
  own.backend = name_of(kind);
  own.cores = cores_of_this_rank();
  own.machine_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const std::vector<LaunchFacts> places = exchange(own, ranks);
  if (kind == BackendKind::kCuda) {
    add_gpu(own, local_rank(places, ranks.rank()));
    if (ranks.size() > 1) add_nccl(own);
  }
  return exchange(own, ranks);
}

}  // namespace strata
