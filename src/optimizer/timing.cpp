#include "strata/optimizer/timing.h"

#include <algorithm>

namespace strata {

bool is_deferred(int block, int deferred, int blocks) {
  const int chosen = std::clamp(deferred, 0, blocks);
  // How many of the first n blocks: n · chosen / blocks, rounded, halves downwards.
  const auto among = [&](int n) { return (2 * n * chosen + blocks - 1) / (2 * blocks); };
  return among(block + 1) > among(block);
}

}  // namespace strata
