#include "strata/comm/communicator.h"

#include <array>

namespace strata {

bool Communicator::any_failed(bool failed, Channel channel) {
  std::array<double, 1> failures{failed ? 1.0 : 0.0};
  all_reduce_sum(failures, channel);
  return failures[0] > 0.0;
}

}  // namespace strata
