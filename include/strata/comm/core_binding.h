// Here it is decided which cores a rank's threads may run on, and how many of them there are. The
// session asks when it makes its backend; what to do with the answer is the thread pool's business.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "strata/base/numa.h"

namespace strata {

/// These are the cores that a rank may run on, and the machine that has them.
struct RankCores {
  std::array<char, 40> machine{};  ///< equal for ranks of one machine
  CoreBits cores;
  CoreBits near;  ///< cores of the NUMA node of its GPU, none if unknown
};

/// Returns where this process may run; `near` is for the caller to fill. The boot id of its kernel
/// tells machines apart, or the name of the host where there is none.
[[nodiscard]] RankCores cores_of_this_rank();

/// Returns the cores that rank `rank` has for itself, ascending: all of its own if no other rank of
/// its machine may run there, an equal share if others may run on the very same ones, and none if
/// theirs overlap in another way. If the NUMA nodes of the sharers' GPUs are known and have all of
/// the cores between them, a rank's share is of its own GPU's node.
[[nodiscard]] std::vector<int> own_share(std::span<const RankCores> ranks, int rank);

/// Returns the number of threads for a rank by default: its part, at least 1, of the `usable` cores
/// of its process, which it shares with the ranks that may run on them.
[[nodiscard]] int own_threads(std::span<const RankCores> ranks, int rank, int usable);

/// Returns the cores for BackendOptions::cores: this rank's share but for the first, which is left
/// to the submitting thread and the driver's threads. Returns none, and the log says why, if the
/// share has fewer than 4 cores or cannot be told: where a control group limits time, not cores,
/// every group of the machine would choose the same ones.
[[nodiscard]] std::vector<int> cores_to_bind(std::span<const RankCores> ranks, int rank);

/// Restricts the calling thread, and so the threads that it makes later, to this rank's share, if
/// other ranks may run on its cores and the share has 4 or more. Returns whether it did; if the
/// system refuses, the log says so.
bool keep_to_own_share(std::span<const RankCores> ranks, int rank);

}  // namespace strata
