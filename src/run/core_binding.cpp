// Ranks tell each other on which machine and cores they may run, and each computes its share from
// that.

#include "run/core_binding.h"

#include <cstring>
#include <fstream>

#include "strata/base/log.h"
#include "strata/base/this_thread.h"
#include "strata/base/thread_pool.h"

namespace strata {

namespace {

/// The fewest cores to bind to: with fewer, a thread that finds its core taken waits too long for
/// another.
constexpr std::size_t kFewest = 4;

/// Returns where this process may run. The boot id of its kernel tells machines apart.
RankCores cores_of_this_rank() {
  RankCores own;
  std::ifstream("/proc/sys/kernel/random/boot_id")
      .read(own.machine.data(), static_cast<std::streamsize>(own.machine.size()));
  for (const int core : cores_of_this_thread()) {
    const auto at = static_cast<std::size_t>(core);
    if (at < RankCores::kMost) own.cores.set(at);
  }
  return own;
}

}  // namespace

std::vector<int> own_share(std::span<const RankCores> ranks, int rank) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  std::size_t sharers = 0;
  std::size_t place = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].machine != own.machine || (ranks[r].cores & own.cores).none()) continue;
    if (ranks[r].cores != own.cores) return {};
    if (r < static_cast<std::size_t>(rank)) ++place;
    ++sharers;
  }
  if (sharers == 0) return {};  // it may run nowhere that we know of
  const std::size_t count = own.cores.count();
  const std::size_t begin = count * place / sharers;
  const std::size_t end = count * (place + 1) / sharers;
  std::vector<int> share;
  std::size_t index = 0;
  for (std::size_t core = 0; core < RankCores::kMost; ++core) {
    if (!own.cores.test(core)) continue;
    if (index >= begin && index < end) share.push_back(static_cast<int>(core));
    ++index;
  }
  return share;
}

std::vector<int> cores_to_bind(Ranks& ranks) {
  const RankCores own = cores_of_this_rank();
  const std::vector<std::byte> bytes =
      ranks.all_gather_host(std::as_bytes(std::span(&own, 1)), Channel::kSubmit);
  std::vector<RankCores> all(static_cast<std::size_t>(ranks.size()));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  if (static_cast<std::size_t>(usable_cores()) < own.cores.count()) {
    log::info("threads are not bound: a control group limits time on {} cores", own.cores.count());
    return {};
  }
  std::vector<int> cores = own_share(all, ranks.rank());
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

}  // namespace strata
