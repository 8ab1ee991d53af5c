// Tests the order in which a walk visits units and cells, against lists written by hand.

#include "strata/schedule/walk.h"

#include "support/catch.h"

namespace strata {

TEST_CASE("a fixed walk visits every unit with ascending cells") {
  const Walk walk = make_walk({.layers = 3, .cells = 2, .layers_per_visit = 2});
  REQUIRE(walk.forward.size() == 3);
  CHECK(walk.forward[0].units == std::vector<int>{0});
  CHECK(walk.forward[1].units == std::vector<int>{1, 2});
  CHECK(walk.forward[2].units == std::vector<int>{3});
  CHECK(walk.head.units == std::vector<int>{4});
  REQUIRE(walk.backward.size() == 3);
  CHECK(walk.backward[0].units == std::vector<int>{3});
  CHECK(walk.backward[1].units == std::vector<int>{2, 1});
  CHECK(walk.backward[2].units == std::vector<int>{0});
  for (const Visit& visit : walk.forward) CHECK(visit.cells == std::vector<int>{0, 1});
}

TEST_CASE("an alternating walk begins each visit with the cell that ended the last") {
  const Walk walk = make_walk({.layers = 4, .cells = 3, .direction = Direction::kAlternating});
  std::vector<Visit> all = walk.forward;
  all.push_back(walk.head);
  all.insert(all.end(), walk.backward.begin(), walk.backward.end());
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    CHECK(all[i].cells.back() == all[i + 1].cells.front());
  }
}

}  // namespace strata
