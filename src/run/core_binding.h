// Which cores a rank's threads are bound to. The session asks when it makes its backend; what to do
// with the answer is the thread pool's business.

#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <span>
#include <vector>

#include "strata/comm/ranks.h"

namespace strata {

/// The cores that a rank may run on, and the machine that has them.
struct RankCores {
  static constexpr std::size_t kMost = 4096;  ///< cores with larger numbers are left out

  std::array<char, 40> machine{};  ///< equal for ranks of one machine
  std::bitset<kMost> cores;
};

/// Returns the cores that rank `rank` has for itself, ascending: all of its own if no other rank of
/// its machine may run there, an equal share if others may run on the very same ones, and none if
/// theirs overlap in another way.
[[nodiscard]] std::vector<int> own_share(std::span<const RankCores> ranks, int rank);

/// Returns the cores for BackendOptions::cores: this rank's share but for the first, which is left
/// to the submitting thread and the driver's threads. Returns none, and the log says why, if the
/// share has fewer than 4 cores or cannot be told: where a control group limits time, not cores,
/// every group of the machine would choose the same ones. All ranks call it; it blocks.
[[nodiscard]] std::vector<int> cores_to_bind(Ranks& ranks);

}  // namespace strata
