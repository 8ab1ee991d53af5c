// The rates of one rank among several, worked out of those of one rank alone: what ranks leave each
// other of a host, and how fast their collectives are. docs/prediction.md has the figures that the
// laws were fitted to.

#pragma once

#include <vector>

#include "strata/device/gpu_models.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/rates.h"

namespace strata {

/// Lowers a rank's rates of host memory and of copies to what is left to it if so many ranks of a
/// host do the same at the same time. Rates of one rank stay as they are.
void share_host(Rates& rates, int ranks_on_host);

/// Lowers a rank's rates of products and attention to those of the slowest among so many GPUs of a
/// kind, for which all others wait. Rates of one rank stay as they are.
void wait_for_slowest(Rates& rates, int ranks);

/// Returns how much of a link, GB/s each way with copies both ways, a rank has beside others of a
/// server.
[[nodiscard]] double shared_link_gbs(double link_gbs, int ranks_on_host);

/// Returns the rates of the collectives that a run of this layout submits; none for one rank.
/// `link_gbs` is that of a copy alone.
[[nodiscard]] std::vector<CollectiveRate> collective_rates(const PeerLink& peers, double link_gbs,
                                                           const RankLayout& layout);

}  // namespace strata
