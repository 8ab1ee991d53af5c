#include "strata/schedule/walk.h"

#include <algorithm>
#include <numeric>

namespace strata {

Walk make_walk(const WalkOptions& options) {
  std::vector<int> cells(static_cast<std::size_t>(options.cells));
  std::iota(cells.begin(), cells.end(), 0);
  const auto visit = [&](std::vector<int> units) {
    Visit v{std::move(units), cells};
    if (options.direction == Direction::kAlternating) std::reverse(cells.begin(), cells.end());
    return v;
  };

  Walk walk;
  walk.forward.push_back(visit({0}));
  std::vector<std::vector<int>> groups;
  for (int first = 1; first <= options.layers; first += options.layers_per_visit) {
    const int last = std::min(first + options.layers_per_visit, options.layers + 1);
    std::vector<int> group(static_cast<std::size_t>(last - first));
    std::iota(group.begin(), group.end(), first);
    walk.forward.push_back(visit(group));
    groups.push_back(std::move(group));
  }
  walk.head = visit({options.layers + 1});
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    walk.backward.push_back(visit({group->rbegin(), group->rend()}));
  }
  walk.backward.push_back(visit({0}));
  return walk;
}

}  // namespace strata
