// Tests how ranks share the cores of a machine, on invented machines and on the one that runs the
// test.

#include "strata/comm/core_binding.h"

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "strata/base/this_thread.h"
#include "support/catch.h"

using namespace strata;

namespace {

RankCores rank_on(char machine, std::initializer_list<std::size_t> cores) {
  RankCores rank;
  rank.machine[0] = machine;
  for (const std::size_t core : cores) rank.cores.set(core);
  return rank;
}

using Cores = std::vector<int>;

}  // namespace

TEST_CASE("a rank that nobody shares cores with has all of them") {
  const std::vector ranks{rank_on('a', {0, 1, 2, 3}), rank_on('a', {4, 6, 8}),
                          rank_on('b', {0, 1, 2, 3})};
  CHECK(own_share(ranks, 0) == Cores{0, 1, 2, 3});
  CHECK(own_share(ranks, 1) == Cores{4, 6, 8});
  CHECK(own_share(ranks, 2) == Cores{0, 1, 2, 3});
}

TEST_CASE("ranks with the same cores of one machine get disjoint shares of them") {
  const std::vector ranks{rank_on('a', {0, 1, 2, 3, 4, 5, 6}), rank_on('b', {0, 1}),
                          rank_on('a', {0, 1, 2, 3, 4, 5, 6}), rank_on('a', {0, 1, 2, 3, 4, 5, 6})};
  CHECK(own_share(ranks, 0) == Cores{0, 1});
  CHECK(own_share(ranks, 2) == Cores{2, 3});
  CHECK(own_share(ranks, 3) == Cores{4, 5, 6});
}

TEST_CASE("a rank whose cores overlap with others' in part, or are not known, has none") {
  const std::vector ranks{rank_on('a', {0, 1, 2, 3}), rank_on('a', {3, 4, 5, 6}), rank_on('a', {})};
  for (int rank = 0; rank < 3; ++rank) CHECK(own_share(ranks, rank).empty());
}

TEST_CASE("ranks whose GPUs are on different NUMA nodes get shares of their own node") {
  std::vector ranks(4, rank_on('a', {0, 1, 2, 3, 4, 5, 6, 7}));
  ranks.push_back(rank_on('b', {0, 1}));
  for (const std::size_t rank : {0u, 2u}) ranks[rank].near = rank_on('a', {4, 5, 6, 7, 8}).cores;
  for (const std::size_t rank : {1u, 3u}) ranks[rank].near = rank_on('a', {0, 1, 2, 3}).cores;
  CHECK(own_share(ranks, 0) == Cores{4, 5});
  CHECK(own_share(ranks, 1) == Cores{0, 1});
  CHECK(own_share(ranks, 2) == Cores{6, 7});
  CHECK(own_share(ranks, 3) == Cores{2, 3});
  CHECK(own_share(ranks, 4) == Cores{0, 1});
}

TEST_CASE("no core is left idle because no GPU is near it, or because one is at an unknown place") {
  std::vector ranks(2, rank_on('a', {0, 1, 2, 3}));
  for (RankCores& rank : ranks) rank.near = rank_on('a', {0, 1}).cores;
  CHECK(own_share(ranks, 0) == Cores{0, 1});
  CHECK(own_share(ranks, 1) == Cores{2, 3});
  ranks[0].near.reset();
  ranks[1].near = ranks[1].cores;
  CHECK(own_share(ranks, 1) == Cores{2, 3});
}

TEST_CASE("ranks that may run on the same cores divide the threads, and each has one") {
  std::vector ranks(3, rank_on('a', {0, 1, 2, 3, 4, 5, 6, 7}));
  ranks.push_back(rank_on('a', {8, 9}));
  ranks.push_back(rank_on('b', {0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK(own_threads(ranks, 0, 8) == 2);
  CHECK(own_threads(ranks, 0, 2) == 1);
  CHECK(own_threads(ranks, 3, 2) == 2);
  CHECK(own_threads(ranks, 4, 8) == 8);
}

TEST_CASE("a rank keeps to a share of 4 cores or more, and only if it shares them") {
  const RankCores own = cores_of_this_rank();
  const Cores all = cores_of_this_thread();
  CHECK_FALSE(keep_to_own_share(std::vector{own}, 0));
  CHECK(cores_of_this_thread() == all);
  const bool kept = keep_to_own_share(std::vector{own, own}, 1);
  CHECK(kept == (all.size() - all.size() / 2 >= 4));
  CHECK(cores_of_this_thread().size() == (kept ? all.size() - all.size() / 2 : all.size()));
  REQUIRE_FALSE(bind_this_thread(all));
}

TEST_CASE("threads are bound within the affinity mask, or not at all if it is small") {
  const Cores all = cores_of_this_thread();
  const Cores bound = cores_to_bind(std::vector{cores_of_this_rank()}, 0);
  CHECK((bound.empty() || bound == Cores(all.begin() + 1, all.end())));
  REQUIRE_FALSE(bind_this_thread({all.data(), 1}));
  const Cores alone = cores_to_bind(std::vector{cores_of_this_rank()}, 0);
  REQUIRE_FALSE(bind_this_thread(all));
  CHECK(alone.empty());
}
