// Answers questions about the order of a pass from a list of positions for each key, so that a
// look-up is a binary search.

#include "strata/store/access_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace strata {

AccessPlan::AccessPlan(std::vector<std::int64_t> keys) : keys_(std::move(keys)) {
  for (std::int64_t i = 0; i < size(); ++i) positions_[key(i)].push_back(i);
}

std::int64_t AccessPlan::next_use(std::int64_t key) const {
  const auto found = positions_.find(key);
  if (found == positions_.end()) return kNever;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), position_);
  return next == found->second.end() ? kNever : *next;
}

void AccessPlan::advance(std::int64_t key) {
  if (position_ >= size() || this->key(position_) != key) {
    throw std::logic_error("access " + std::to_string(position_) + " to " + std::to_string(key) +
                           " was not planned");
  }
  ++position_;
}

}  // namespace strata
