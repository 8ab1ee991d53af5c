// Tests how ranks share the cores of a machine, on invented machines and on the one that runs the
// test.

#include "run/core_binding.h"

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

TEST_CASE("threads are bound within the affinity mask, or not at all if it is small") {
  const Cores all = cores_of_this_thread();
  const auto self = make_self_ranks();
  const Cores bound = cores_to_bind(*self);
  CHECK((bound.empty() || bound == Cores(all.begin() + 1, all.end())));
  REQUIRE_FALSE(bind_this_thread({all.data(), 1}));
  const Cores alone = cores_to_bind(*self);
  REQUIRE_FALSE(bind_this_thread(all));
  CHECK(alone.empty());
}
