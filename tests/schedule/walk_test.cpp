// What a pass announces to the stores; the schedule is held to it, as they throw where it leaves
// the order.

#include "strata/schedule/walk.h"

#include <utility>
#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

Pairs boundaries(const Walk& walk, Extent extent) {
  Pairs pairs;
  for (const auto& read : boundary_order(walk, extent)) {
    pairs.emplace_back(read.boundary, read.cell);
  }
  return pairs;
}

Pairs backward_cells(const Walk& walk, Extent extent) {
  Pairs pairs;
  for (const auto& read : backward_order(walk, extent)) pairs.emplace_back(read.layer, read.cell);
  return pairs;
}

std::vector<int> units(const Walk& walk, Extent extent) {
  std::vector<int> numbers;
  for (const UnitId unit : unit_order(walk, extent)) numbers.push_back(unit.value());
  return numbers;
}

constexpr Walk kWalk{.layers = 2, .cells = 2};

}  // namespace

TEST_CASE("a pass takes the weights of every unit upwards and of the layers downwards") {
  CHECK(units(kWalk, Extent::kForwardAndBackward) == std::vector<int>{0, 1, 2, 3, 2, 1});
  CHECK(units(kWalk, Extent::kForward) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("a pass reads the boundaries of all cells unit by unit, with cells ascending") {
  const Pairs forward{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}};
  Pairs both = forward;
  const Pairs backward{{1, 0}, {1, 1}, {0, 0}, {0, 1}};
  both.insert(both.end(), backward.begin(), backward.end());
  CHECK(boundaries(kWalk, Extent::kForward) == forward);
  CHECK(boundaries(kWalk, Extent::kForwardAndBackward) == both);
  CHECK(backward_cells(kWalk, Extent::kForwardAndBackward) == backward);
  CHECK(backward_cells(kWalk, Extent::kForward).empty());
}

}  // namespace strata
