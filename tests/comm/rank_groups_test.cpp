// Which ranks shard the state together, against tables made by hand.
#include "strata/comm/rank_groups.h"

#include <array>
#include <mutex>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

namespace strata {

TEST_CASE("the ranks of a host have its copy, in whichever order they were started") {
  const std::vector<GroupPlace> by_host = places_by_host({"b", "b", "a", "a"});
  CHECK(by_host == std::vector<GroupPlace>{{0, 2, 0, 2}, {1, 2, 0, 2}, {0, 2, 1, 2}, {1, 2, 1, 2}});
  const std::vector<GroupPlace> in_turns = places_by_host({"x", "y", "z", "x", "y", "z"});
  for (int r = 0; r < 6; ++r) {
    CHECK(in_turns[static_cast<std::size_t>(r)] == GroupPlace{r / 3, 2, r % 3, 3});
  }
  CHECK(places_by_host({"one", "one", "one"})[2] == GroupPlace{2, 3, 0, 1});
  CHECK(GroupPlace{0, 2, 1, 3}.world() == 6);
}

TEST_CASE("hosts with different numbers of ranks are named") {
  CHECK_THROWS_WITH(places_by_host({"big", "small", "big"}), ContainsSubstring("run.shard_group") &&
                                                                 ContainsSubstring("big has 2") &&
                                                                 ContainsSubstring("small has 1"));
  const auto body = [](Ranks& ranks) { RankGroups groups(ranks, ShardGroup::kNode); };
  CHECK_THROWS_AS(run_ranks(3, body, 2), ConfigError);
  CHECK_NOTHROW(run_ranks(4, body, 2));
}

TEST_CASE("groups talk among themselves and all together") {
  std::mutex mutex;
  int right = 0;
  run_ranks(
      6,
      [&](Ranks& ranks) {
        RankGroups groups(ranks, ShardGroup::kNode);
        const int host = ranks.rank() / 2;
        std::array<double, 1> shard{1.0 + ranks.rank()};
        std::array<double, 1> replicas = shard;
        std::array<double, 1> world = shard;
        groups.shard().all_reduce_sum(shard, Channel::kHost);
        groups.replicas().all_reduce_sum(replicas, Channel::kHost);
        groups.world().all_reduce_sum(world, Channel::kHost);
        const bool ok = groups.place() == GroupPlace{ranks.rank() % 2, 2, host, 3} &&
                        shard[0] == 4 * host + 3 && replicas[0] == 9 + 3 * (ranks.rank() % 2) &&
                        world[0] == 21;
        const std::lock_guard lock(mutex);
        right += ok ? 1 : 0;
      },
      2);
  CHECK(right == 6);
}

TEST_CASE("one host, one rank or all of them have one copy") {
  for (const auto& [ranks, on_host, kind] :
       {std::tuple(4, 0, ShardGroup::kNode), std::tuple(4, 2, ShardGroup::kAll),
        std::tuple(1, 0, ShardGroup::kNode)}) {
    std::mutex mutex;
    int right = 0;
    run_ranks(
        ranks,
        [&, wanted = kind](Ranks& world) {
          RankGroups groups(world, wanted);
          const bool ok = groups.place() == GroupPlace{world.rank(), world.size(), 0, 1} &&
                          &groups.shard() == &world && groups.replicas().size() == 1;
          const std::lock_guard lock(mutex);
          right += ok ? 1 : 0;
        },
        on_host);
    CHECK(right == ranks);
  }
}

}  // namespace strata
