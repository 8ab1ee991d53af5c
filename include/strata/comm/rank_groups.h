// Which ranks hold a copy of the training state together. The ranks of a group shard it: each holds
// an equal part of every block. With several groups each is a replica of the others: they train on
// different samples and add their gradients once a step. A session makes the groups at its start.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/comm/shard_group.h"

namespace strata {

/// A rank's place in its groups.
struct GroupPlace {
  int rank = 0;      ///< in its shard group
  int ranks = 1;     ///< of a shard group
  int replica = 0;   ///< which shard group it is in
  int replicas = 1;  ///< shard groups

  /// Returns the number of all ranks.
  [[nodiscard]] int world() const { return ranks * replicas; }
  bool operator==(const GroupPlace&) const = default;
};

/// Returns the places of ranks that run on these hosts, by rank. Hosts count in the order in which
/// they occur. Throws ConfigError, naming hosts, if one has more ranks than another.
[[nodiscard]] std::vector<GroupPlace> places_by_host(const std::vector<std::string>& hosts);

class RankGroups {
 public:
  /// Splits `world`, which outlives the groups. All ranks call it; throws as places_by_host does,
  /// on all of them.
  RankGroups(Ranks& world, ShardGroup kind);

  [[nodiscard]] const GroupPlace& place() const { return place_; }
  /// Returns all ranks: those that share the samples of a step.
  [[nodiscard]] Ranks& world() { return world_; }
  /// Returns the ranks that hold a copy of the state together with this one.
  [[nodiscard]] Ranks& shard() { return shard_ ? *shard_ : world_; }
  /// Returns the ranks that hold the same part of the state, by replica.
  [[nodiscard]] Ranks& replicas() { return *replicas_; }

 private:
  Ranks& world_;
  GroupPlace place_;
  std::unique_ptr<Ranks> shard_;  ///< null where it is the world
  std::unique_ptr<Ranks> replicas_;
};

/// The collectives of the groups on one device.
struct GroupCollectives {
  std::unique_ptr<Collectives> shard;     ///< gathers weights, sums and scatters gradients
  std::unique_ptr<Collectives> replicas;  ///< sums the shards of gradients
};
/// Makes them as make_collectives does. All ranks call it.
[[nodiscard]] GroupCollectives make_group_collectives(RankGroups& groups, Device& device);

}  // namespace strata
