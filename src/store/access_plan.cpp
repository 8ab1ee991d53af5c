// Makes an access plan and goes through it. Each access knows the next one to the same key, and
// each key the next access to it: an access that is done moves its key on by one.

#include "strata/store/access_plan.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace strata {

AccessPlan::AccessPlan(std::vector<std::int64_t> keys)
    : keys_(std::move(keys)), later_(keys_.size()) {
  if (keys_.empty()) return;
  next_.assign(static_cast<std::size_t>(std::ranges::max(keys_)) + 1, kNever);
  for (std::size_t i = keys_.size(); i-- > 0;) {
    std::int64_t& next = next_[static_cast<std::size_t>(keys_[i])];
    later_[i] = std::exchange(next, static_cast<std::int64_t>(i));
  }
}

std::int64_t AccessPlan::next_use(std::int64_t key) const {
  const auto i = static_cast<std::size_t>(key);
  return i < next_.size() ? next_[i] : kNever;
}

void AccessPlan::advance(std::int64_t key) {
  if (position_ >= size() || this->key(position_) != key) {
    throw std::logic_error("access " + std::to_string(position_) + " to " + std::to_string(key) +
                           " was not planned");
  }
  next_[static_cast<std::size_t>(key)] = later_[static_cast<std::size_t>(position_)];
  ++position_;
}

}  // namespace strata
