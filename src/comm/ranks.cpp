// What all groups of ranks have in common. Whoever may fail alone calls any_failed, so that all
// ranks go on or none does.
#include "strata/comm/ranks.h"

#include <array>

namespace strata {

bool Ranks::any_failed(bool failed, Channel channel) {
  std::array<double, 1> failures{failed ? 1.0 : 0.0};
  all_reduce_sum(failures, channel);
  return failures[0] > 0.0;
}

}  // namespace strata
