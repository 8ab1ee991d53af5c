// Lowers the rates of one rank to what remains beside others, and gives collectives their rates. A
// host has one memory, so copies and AdamW of its ranks share what it moves, of which a table has
// what was measured. GPUs of a kind differ, and collectives let all wait for the slowest. They are
// rings: every rank sends all but a share of the buffer to the next one, at the rate of the slowest
// place between two ranks.

#include "strata/predict/rank_rates.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace strata {

namespace {

/// What all ranks of a host reach together, GB/s; `adamw` in units of what one rank reaches.
struct HostTotals {
  int ranks = 1;
  double adamw = 1;
  double in = 0;    ///< copies to devices alone
  double out = 0;   ///< copies from devices alone
  double both = 0;  ///< each way, with copies both ways
};
/// H200 with 16 cores a rank: two and four ranks of a host of four, eight of a host of eight.
/// AdamW of two is an estimate.
constexpr HostTotals kHosts[] = {
    {1, 1, 55, 55, 50}, {2, 1.1, 102, 92, 70}, {4, 1.28, 140, 112, 80}, {8, 1.39, 232, 136, 88}};
/// What AdamW of one rank moves on these hosts: totals of others are taken to be in proportion.
constexpr double kHostGbs = 155;

/// Returns the totals of so many ranks: between two rows on a straight line, beyond the last one
/// no more than that.
HostTotals totals_of(int ranks) {
  const HostTotals* const above = std::find_if(
      std::begin(kHosts), std::end(kHosts), [&](const HostTotals& h) { return h.ranks >= ranks; });
  if (above == std::end(kHosts)) return kHosts[std::size(kHosts) - 1];
  if (above->ranks == ranks) return *above;
  const HostTotals& below = *(above - 1);
  const double part = static_cast<double>(ranks - below.ranks) / (above->ranks - below.ranks);
  return {.ranks = ranks,
          .adamw = std::lerp(below.adamw, above->adamw, part),
          .in = std::lerp(below.in, above->in, part),
          .out = std::lerp(below.out, above->out, part),
          .both = std::lerp(below.both, above->both, part)};
}

/// Ranks that call a collective together.
struct Group {
  int ranks = 1;
  int on_host = 1;  ///< of them
};

Group shard_group(const RankLayout& layout) {
  return {.ranks = layout.ranks, .on_host = std::min(layout.ranks, layout.on_host)};
}

/// Replicas of a shard are on different hosts, but where all ranks are on one.
Group replica_group(const RankLayout& layout) {
  return {.ranks = layout.replicas,
          .on_host = std::clamp(layout.on_host / layout.ranks, 1, layout.replicas)};
}

/// The start of a collective, and what each further host of the ring adds to it: an estimate.
constexpr double kStartUs = 100, kHostUs = 20;
/// Two ranks have fewer links between them than four or more.
constexpr double kShareOfTwo = 0.8;
/// The share of a NIC's rate that collectives reach: an estimate.
constexpr double kNicShare = 0.85;
/// Beside kernels a collective over NVLink gets half of the multiprocessors' time that it wants: an
/// estimate. Each one that begins costs kernels so much, whatever its bytes.
constexpr double kShareBesideKernels = 0.5, kKernelLossUs = 250;

/// Returns the rate of a collective in this group, but for its name and what it does to kernels.
CollectiveRate rate_of(const Group& group, const PeerLink& peers, double link_gbs) {
  CollectiveRate rate;
  const double n = group.ranks;
  const int hosts = (group.ranks + group.on_host - 1) / group.on_host;
  const double peers_gbs = peers.collective_gbs * (n > 2 || peers.over_pcie ? 1 : kShareOfTwo);
  // A rank's share of the NICs, times the ranks whose NICs this ring can use.
  const double hosts_gbs = kNicShare * peers.nic_gbs * group.on_host;
  rate.start_us = kStartUs + kHostUs * (hosts - 1);
  rate.kernel_loss_us = kKernelLossUs;
  rate.sent = (n - 1) / n;
  rate.gbs = group.on_host == 1 ? hosts_gbs
             : hosts == 1       ? peers_gbs
                                : std::min(peers_gbs, hosts_gbs);
  if (hosts > 1) rate.link_use = rate.gbs / group.on_host / link_gbs;
  if (group.on_host > 1 && peers.over_pcie) rate.link_use = rate.gbs / link_gbs;
  rate.link_use = std::min(rate.link_use, 1.0);
  if (group.on_host > 1 && !peers.over_pcie) {
    rate.own_share = std::min(1.0, kShareBesideKernels * peers.collective_gbs / rate.gbs);
  }
  return rate;
}

}  // namespace

void share_host(Rates& rates, int ranks_on_host) {
  if (ranks_on_host == 1) return;
  const HostTotals totals = totals_of(ranks_on_host);
  const double part = rates.host_gbs / kHostGbs / ranks_on_host;
  const double in = std::min(rates.link_gbs, totals.in * part);
  const double out = std::min(rates.link_gbs, totals.out * part);
  const double both = std::min(rates.link_gbs * rates.link_both_ways, totals.both * part);
  rates.link_gbs = in;
  rates.link_out_share = out / in;
  rates.link_both_ways = std::min(1.0, 2 * both / (in + out));
  rates.host_gbs *= totals.adamw / ranks_on_host;
}

void wait_for_slowest(Rates& rates, int ranks) {
  // What GPUs of a kind take for the same step differs by a normal distribution with this standard
  // deviation: four H200 of one host, each alone (docs/measurements/ranks.md).
  constexpr double kSpread = 0.012;
  // How many standard deviations above the mean the largest of 1, 2, 4, ... draws is expected.
  constexpr double kLargest[] = {0,     0.564, 1.029, 1.424, 1.766, 2.070,
                                 2.343, 2.594, 2.825, 3.041, 3.242};
  const double doublings =
      std::min(std::log2(static_cast<double>(ranks)), std::size(kLargest) - 1.0);
  const auto below = static_cast<std::size_t>(doublings);
  const std::size_t above = std::min(below + 1, std::size(kLargest) - 1);
  const double slower = 1 + kSpread * std::lerp(kLargest[below], kLargest[above],
                                                doublings - static_cast<double>(below));
  rates.product_tflops /= slower;
  rates.attention_forward_tflops /= slower;
  rates.attention_backward_tflops /= slower;
}

double shared_link_gbs(double link_gbs, int ranks_on_host) {
  if (ranks_on_host == 1) return link_gbs;
  return std::min(link_gbs, totals_of(ranks_on_host).both / ranks_on_host);
}

std::vector<CollectiveRate> collective_rates(const PeerLink& peers, double link_gbs,
                                             const RankLayout& layout) {
  // What remains to products beside collectives without a pause; sums of replicas were not
  // measured, and are taken to be like those within a host.
  constexpr double kBesideGather = 1 / 1.06, kBesideSums = 1 / 1.22;
  std::vector<CollectiveRate> rates;
  const auto add = [&](std::string_view name, const Group& group, double times, double beside) {
    CollectiveRate rate = rate_of(group, peers, link_gbs);
    rate.name = name;
    rate.sent *= times;
    rate.kernel_share = beside;
    rates.push_back(rate);
  };
  if (layout.ranks > 1) {
    add("all_gather", shard_group(layout), 1, kBesideGather);
    add("reduce_scatter", shard_group(layout), 1, kBesideSums);
  }
  if (layout.replicas > 1) add("all_reduce", replica_group(layout), 2, kBesideSums);
  return rates;
}

}  // namespace strata
