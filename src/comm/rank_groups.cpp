// Forms the groups of ranks. Ranks show each other the names of their hosts, and each computes all
// places from them.
#include "strata/comm/rank_groups.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>

#include "strata/base/error.h"

namespace strata {

namespace {

/// Returns the hosts of all ranks, by rank.
std::vector<std::string> hosts_of(Ranks& world) {
  std::array<char, 256> own{};
  world.host().copy(own.data(), own.size() - 1);
  const std::vector<std::byte> all =
      world.all_gather_host(std::as_bytes(std::span(own)), Channel::kSubmit);
  std::vector<std::string> hosts;
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    hosts.emplace_back(reinterpret_cast<const char*>(all.data() + at));
  }
  return hosts;
}

}  // namespace

std::vector<GroupPlace> places_by_host(const std::vector<std::string>& hosts) {
  std::map<std::string, int> ranks_on;
  std::map<std::string, int> number_of;
  std::vector<GroupPlace> places;
  for (const std::string& host : hosts) {
    const auto replica = number_of.emplace(host, static_cast<int>(number_of.size())).first->second;
    places.push_back({.rank = ranks_on[host]++, .replica = replica});
  }
  for (const auto& [host, ranks] : ranks_on) {
    if (ranks == ranks_on.at(hosts[0])) continue;
    throw ConfigError(
        "run.shard_group: \"node\" needs the same number of ranks on every host, and " + hosts[0] +
        " has " + std::to_string(ranks_on.at(hosts[0])) + ", " + host + " has " +
        std::to_string(ranks) + "; start as many on each, or set \"all\"");
  }
  for (GroupPlace& place : places) {
    place.ranks = ranks_on.at(hosts[0]);
    place.replicas = static_cast<int>(number_of.size());
  }
  return places;
}

RankGroups::RankGroups(Ranks& world, ShardGroup kind)
    : world_(world), place_{.rank = world.rank(), .ranks = world.size()} {
  if (kind == ShardGroup::kNode && world.size() > 1) {
    place_ = places_by_host(hosts_of(world))[static_cast<std::size_t>(world.rank())];
  }
  if (place_.replicas == 1) {
    replicas_ = make_self_ranks();
    return;
  }
  shard_ = world.split(place_.replica);
  replicas_ = world.split(place_.rank);
}

GroupCollectives make_group_collectives(RankGroups& groups, Device& device) {
  return {.shard = make_collectives(groups.shard(), device),
          .replicas = make_collectives(groups.replicas(), device)};
}

}  // namespace strata
