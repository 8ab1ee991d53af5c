#pragma once

#include <cstdint>
#include <vector>

#include "strata/schedule/direction.h"

namespace strata {

/// Consecutive units that are on the device together, in the order in which they run, and the cells
/// (sub-batches) in the order in which they pass.
struct Visit {
  std::vector<int> units;
  std::vector<int> cells;
};

/// The order of one pass: which units are visited together, and in which order sub-batches pass.
/// Units are numbered as in ModelLayout: 0 embedding, 1..L layers, L+1 head.
struct Walk {
  std::vector<Visit> forward;  ///< embedding, then layers upwards
  Visit head;
  std::vector<Visit> backward;  ///< layers downwards, then embedding
};

struct WalkOptions {
  int layers = 1;
  int cells = 1;
  int layers_per_visit = 1;
  Direction direction = Direction::kFixed;
};

[[nodiscard]] Walk make_walk(const WalkOptions& options);

}  // namespace strata
