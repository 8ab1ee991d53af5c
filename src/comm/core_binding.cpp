// Shares out the cores of a machine among its ranks. Every rank knows on which machine and cores
// the others may run, and computes its share from that.

#include "strata/comm/core_binding.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "strata/base/log.h"
#include "strata/base/this_thread.h"
#include "strata/base/thread_pool.h"

namespace strata {

namespace {

/// Threads are bound to this many cores or more: with fewer, a thread that finds its core taken
/// waits too long for another.
constexpr std::size_t kFewest = 4;

bool share_a_core(const RankCores& a, const RankCores& b) {
  return a.machine == b.machine && (a.cores & b.cores).any();
}

/// Returns the cores that rank `own` takes a share of. All ranks with the same cores decide alike
/// whether those are the ones near their GPUs.
CoreBits shared_cores(std::span<const RankCores> ranks, const RankCores& own) {
  CoreBits covered;
  for (const RankCores& rank : ranks) {
    if (!share_a_core(rank, own)) continue;
    if ((rank.cores & rank.near).none()) return own.cores;
    covered |= rank.cores & rank.near;
  }
  return covered == own.cores ? own.cores & own.near : own.cores;
}

}  // namespace

RankCores cores_of_this_rank() {
  RankCores own;
  const auto size = static_cast<std::streamsize>(own.machine.size());
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (boot.read(own.machine.data(), size).gcount() == 0) {
    ::gethostname(own.machine.data(), own.machine.size() - 1);
  }
  for (const int core : cores_of_this_thread()) {
    const auto at = static_cast<std::size_t>(core);
    if (at < own.cores.size()) own.cores.set(at);
  }
  return own;
}

std::vector<int> own_share(std::span<const RankCores> ranks, int rank) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  const CoreBits cores = shared_cores(ranks, own);
  std::size_t sharers = 0;
  std::size_t place = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!share_a_core(ranks[r], own)) continue;
    if (ranks[r].cores != own.cores) return {};
    const CoreBits others = shared_cores(ranks, ranks[r]);
    if ((others & cores).none()) continue;  // near another GPU
    if (others != cores) return {};
    if (r < static_cast<std::size_t>(rank)) ++place;
    ++sharers;
  }
  if (sharers == 0) return {};  // it may run nowhere that we know of
  const std::size_t count = cores.count();
  const std::size_t begin = count * place / sharers;
  const std::size_t end = count * (place + 1) / sharers;
  std::vector<int> share;
  std::size_t index = 0;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (!cores.test(core)) continue;
    if (index >= begin && index < end) share.push_back(static_cast<int>(core));
    ++index;
  }
  return share;
}

int own_threads(std::span<const RankCores> ranks, int rank, int usable) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  const auto sharers = std::count_if(
      ranks.begin(), ranks.end(), [&](const RankCores& other) { return share_a_core(other, own); });
  return std::max(1, usable / static_cast<int>(std::max<std::ptrdiff_t>(sharers, 1)));
}

std::vector<int> cores_to_bind(std::span<const RankCores> ranks, int rank) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  if (static_cast<std::size_t>(usable_cores()) < own.cores.count()) {
    log::info("threads are not bound: a control group limits time on {} cores", own.cores.count());
    return {};
  }
  std::vector<int> cores = own_share(ranks, rank);
  if (cores.size() < kFewest) {
    log::info("threads are not bound: this rank has {} cores of its own, {} are needed",
              cores.size(), kFewest);
    return {};
  }
  cores.erase(cores.begin());
  log::debug("threads of the pool are bound to {} cores from {} to {}", cores.size(), cores.front(),
             cores.back());
  return cores;
}

bool keep_to_own_share(std::span<const RankCores> ranks, int rank) {
  const std::vector<int> share = own_share(ranks, rank);
  const std::size_t all = ranks[static_cast<std::size_t>(rank)].cores.count();
  if (share.size() < kFewest || share.size() == all) return false;
  const std::error_code refused = bind_this_thread(share);
  if (refused)
    log::warn("this rank does not keep to its share of the cores: {}", refused.message());
  return !refused;
}

}  // namespace strata
