// Checks how ranks were started. Each check looks at all ranks and adds what it finds. Ranks with
// the same fault share a text.

#include "strata/launch/launch_checks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "strata/base/log.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

namespace {

using Facts = std::vector<LaunchFacts>;

std::string version_text(int version) {
  return version == 0 ? "none"
                      : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Returns "ranks 0, 1 on host a, rank 4 on host b".
std::string places(const Facts& ranks, const std::vector<int>& which) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  for (const int rank : which) {
    const std::string host(ranks[static_cast<std::size_t>(rank)].host.view());
    if (hosts.empty() || hosts.back().first != host) hosts.push_back({host, {}});
    hosts.back().second.push_back(rank);
  }
  constexpr std::size_t kMostHosts = 16;
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i == kMostHosts) return text + " and more";
    text += (i == 0 ? "" : ", ") + ranks_text(hosts[i].second) + " on host " + hosts[i].first;
  }
  return text;
}

/// Returns the ranks for which `is` holds.
std::vector<int> ranks_where(const Facts& ranks, const std::function<bool(int)>& is) {
  std::vector<int> found;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    if (is(rank)) found.push_back(rank);
  }
  return found;
}

/// Returns the ranks by what they say of themselves, as "12.8: ranks 0, 1 on host a; 12.4: ...", or
/// nothing if all say the same.
std::string differing(const Facts& ranks,
                      const std::function<std::string(const LaunchFacts&)>& of) {
  std::map<std::string, std::vector<int>> said;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    said[of(ranks[rank])].push_back(static_cast<int>(rank));
  }
  if (said.size() < 2) return {};
  std::string text;
  for (const auto& [value, which] : said) {
    text += (text.empty() ? "" : "; ") + value + ": " + places(ranks, which);
  }
  return text;
}

/// Returns the ranks of each machine.
std::vector<std::vector<int>> machines_of(const Facts& ranks) {
  std::map<std::array<char, 40>, std::vector<int>> machines;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    machines[ranks[rank].cores.machine].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> all;
  for (auto& [name, which] : machines) all.push_back(std::move(which));
  std::ranges::sort(all);
  return all;
}

const LaunchFacts& facts_of(const Facts& ranks, int rank) {
  return ranks[static_cast<std::size_t>(rank)];
}

void check_versions(const Facts& ranks, GpuModels models, LaunchFindings& found) {
  const std::string backends =
      differing(ranks, [](const LaunchFacts& f) { return std::string(f.backend.view()); });
  if (!backends.empty()) {
    found.errors.push_back("the ranks would run on different backends (" + backends +
                           "); let every rank see a GPU, or set run.backend");
    return;  // versions differ then as well
  }
  const std::string drivers =
      differing(ranks, [](const LaunchFacts& f) { return version_text(f.driver_version); });
  if (!drivers.empty()) {
    found.errors.push_back("the GPU drivers of the hosts offer different versions of CUDA (" +
                           drivers + "); install one driver on all hosts");
  }
  const std::string runtimes =
      differing(ranks, [](const LaunchFacts& f) { return version_text(f.runtime_version); });
  if (!runtimes.empty()) {
    found.errors.push_back("the ranks have different CUDA runtimes (" + runtimes +
                           "); start one program, or one container, on all hosts");
  }
  const std::string gpus =
      differing(ranks, [](const LaunchFacts& f) { return std::string(f.gpu.view()); });
  if (gpus.empty()) return;
  if (models == GpuModels::kOne) {
    found.errors.push_back(
        "with optimizer.kind \"muon\" and run.shard_group \"node\" all ranks need GPUs of one "
        "model, since another may round differently and hosts would part (" +
        gpus + "); set run.shard_group to \"all\", or optimizer.kind to \"adamw\"");
  } else {
    found.warnings.push_back("the ranks have different GPUs, and the slowest sets the pace (" +
                             gpus + ")");
  }
}

/// Ranks on GPUs talk through NCCL.
void check_nccl(const Facts& ranks, LaunchFindings& found) {
  const auto without = [&](int rank) {
    return facts_of(ranks, rank).backend.view() == "cuda" &&
           facts_of(ranks, rank).nccl.view().empty();
  };
  if (const std::vector<int> which = ranks_where(ranks, without); !which.empty()) {
    found.errors.push_back(places(ranks, which) + " cannot use NCCL: " +
                           std::string(facts_of(ranks, which.front()).nccl_problem.view()));
    return;
  }
  const std::string versions =
      differing(ranks, [](const LaunchFacts& f) { return std::string(f.nccl.view()); });
  if (!versions.empty()) {
    found.errors.push_back("the ranks have different versions of NCCL (" + versions +
                           "); install one on all hosts, or start one container");
  }
}

/// Checks the GPUs of ranks of one machine.
void check_gpus(const Facts& ranks, const std::vector<int>& local, LaunchFindings& found) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<int>> users;
  for (const int rank : local) {
    const LaunchFacts& facts = facts_of(ranks, rank);
    if (facts.visible_gpus > 0) {
      users[{facts.pci_bus_id.view(), facts.uuid.view()}].push_back(rank);
    }
  }
  for (const auto& [gpu, which] : users) {
    if (which.size() < 2) continue;
    found.errors.push_back(
        places(ranks, which) + " would share GPU " + std::string(gpu.first) + ", and " +
        std::to_string(facts_of(ranks, which.front()).visible_gpus) +
        " are visible to each; start no more ranks on a host than it has GPUs for the job "
        "(--ntasks-per-node or mpirun -npernode), and let each rank see all of them "
        "(--gpus-per-node, and no CUDA_VISIBLE_DEVICES)");
    return;
  }
  const auto few = [&](int rank) {
    const int visible = facts_of(ranks, rank).visible_gpus;
    return visible > 0 && visible < static_cast<int>(users.size());
  };
  std::vector<int> blind;
  std::copy_if(local.begin(), local.end(), std::back_inserter(blind), few);
  if (blind.empty()) return;
  found.errors.push_back(
      places(ranks, blind) + " cannot see the GPUs of the other ranks there (" +
      std::to_string(facts_of(ranks, blind.front()).visible_gpus) + " visible, " +
      std::to_string(users.size()) +
      " in use), so they could not reach each other directly; --gpus-per-task and --gpu-bind of "
      "SLURM hide them: use --gpus-per-node, and set no CUDA_VISIBLE_DEVICES for single ranks");
}

/// Returns whether a launcher's binding is what leaves a rank few cores: it has fewer than its
/// share of the machine, and not because all ranks there have the same few, as in a small
/// container.
bool bound_by_launcher(const Facts& ranks, int rank) {
  const LaunchFacts& own = facts_of(ranks, rank);
  const int local = local_ranks(ranks, rank);
  if (static_cast<int>(own.cores.cores.count()) >= own.machine_cores / local) return false;
  const auto alike = [&](const LaunchFacts& other) {
    return other.cores.machine != own.cores.machine || other.cores.cores == own.cores.cores;
  };
  return local == 1 || !std::all_of(ranks.begin(), ranks.end(), alike);
}

void check_cores(const Facts& ranks, LaunchFindings& found) {
  const auto cores = [&](int rank) {
    return static_cast<int>(facts_of(ranks, rank).cores.cores.count());
  };
  const auto bound = [&](int rank) {
    return cores(rank) < kFewestCores && bound_by_launcher(ranks, rank);
  };
  // Ranks with the same cores divide them.
  const auto scarce = [&](int rank) {
    const auto sharers =
        static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](const LaunchFacts& other) {
          return other.cores.machine == facts_of(ranks, rank).cores.machine &&
                 (other.cores.cores & facts_of(ranks, rank).cores.cores).any();
        }));
    return !bound(rank) && cores(rank) < kFewestCores * std::max(sharers, 1);
  };
  if (const std::vector<int> which = ranks_where(ranks, bound); !which.empty()) {
    const LaunchFacts& first = facts_of(ranks, which.front());
    found.errors.push_back(
        "the launcher has bound ranks to fewer than " + std::to_string(kFewestCores) +
        " cores: " + places(ranks, which) + " (" + std::to_string(cores(which.front())) + " of " +
        std::to_string(first.machine_cores) +
        " cores); use mpirun --bind-to none, or srun with --cpus-per-task=" +
        std::to_string(
            std::max(kFewestCores, first.machine_cores / local_ranks(ranks, which.front()))));
  }
  if (const std::vector<int> which = ranks_where(ranks, scarce); !which.empty()) {
    found.warnings.push_back("there are fewer than " + std::to_string(kFewestCores) +
                             " cores for each of " + places(ranks, which) +
                             "; updates will be slow. Start fewer ranks on a host, or ask for more "
                             "cores (--cpus-per-task)");
  }
}

void check_counts(const Facts& ranks, LaunchFindings& found) {
  const auto miscounted = [&](int rank) {
    const int launched = facts_of(ranks, rank).launched_on_host;
    return launched > 0 && launched != local_ranks(ranks, rank);
  };
  const std::vector<int> which = ranks_where(ranks, miscounted);
  if (which.empty()) return;
  found.warnings.push_back(
      "the launcher counts other ranks on a host than there are: " + places(ranks, which) + " (" +
      std::to_string(facts_of(ranks, which.front()).launched_on_host) + " by the launcher, " +
      std::to_string(local_ranks(ranks, which.front())) +
      " found); if several of its hosts are containers of one machine, this is harmless");
}

/// Returns ranges of cores, "0-7,64-71".
std::string cores_text(const CoreBits& cores) {
  std::string text;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (!cores.test(core)) continue;
    std::size_t last = core;
    while (last + 1 < cores.size() && cores.test(last + 1)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(core);
    if (last > core) text += "-" + std::to_string(last);
    core = last;
  }
  return text.empty() ? "unknown" : text;
}

}  // namespace

LaunchFindings check_launch(const std::vector<LaunchFacts>& ranks, GpuModels models) {
  LaunchFindings found;
  check_versions(ranks, models, found);
  const auto blind = [&](int rank) {
    return facts_of(ranks, rank).backend.view() == "cuda" &&
           facts_of(ranks, rank).visible_gpus == 0;
  };
  if (const std::vector<int> which = ranks_where(ranks, blind); !which.empty()) {
    found.errors.push_back(places(ranks, which) +
                           " can use no GPU; ask for them (--gpus-per-node), check "
                           "CUDA_VISIBLE_DEVICES and the driver, or set run.backend = \"cpu\"");
  }
  check_nccl(ranks, found);
  for (const std::vector<int>& local : machines_of(ranks)) check_gpus(ranks, local, found);
  check_cores(ranks, found);
  check_counts(ranks, found);
  return found;
}

std::string map_of_ranks(const std::vector<LaunchFacts>& ranks) {
  std::vector<RankCores> cores;
  for (const LaunchFacts& facts : ranks) cores.push_back(facts.cores);
  std::string text = "ranks";
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const LaunchFacts& facts = facts_of(ranks, rank);
    CoreBits share;
    for (const int core : own_share(cores, rank)) share.set(static_cast<std::size_t>(core));
    if (static_cast<int>(share.count()) < kFewestCores) share = facts.cores.cores;
    text += fmt::format("\n  rank {:>4}  host {}", rank, facts.host.view());
    if (facts.visible_gpus > 0) {
      text += fmt::format("  GPU {} {}  NUMA node {}", facts.pci_bus_id.view(), facts.gpu.view(),
                          facts.numa_node < 0 ? "unknown" : std::to_string(facts.numa_node));
    }
    text += "  cores " + cores_text(share);
  }
  return text;
}

}  // namespace strata
