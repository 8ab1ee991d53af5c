// Works out what a lane is at from the two numbers that the device has written. A collective that
// has begun and not passed is where its lane is, since lanes run in order.

#include "device/queue_progress.h"

#include <algorithm>

namespace strata {

namespace {

/// Returns the ticket with these low bits that is nearest to `near`.
std::uint64_t whole_ticket(std::uint32_t low, std::uint64_t near) {
  const auto behind = static_cast<std::int32_t>(static_cast<std::uint32_t>(near) - low);
  return near - static_cast<std::uint64_t>(std::int64_t{behind});
}

}  // namespace

void QueueProgress::announce(const SubmissionLabel& label) {
  const std::lock_guard lock(mutex_);
  newest_ = label;
}

bool QueueProgress::begin(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  in_collective_ = newest_.kind == SubmissionKind::kCollective;
  if (in_collective_) collectives_[count_++ % kKept] = {.ticket = ticket, .label = newest_};
  return in_collective_;
}

LaneState QueueProgress::state(std::uint32_t passed, std::uint32_t begun) const {
  const std::uint64_t told = newest_told();
  const std::uint64_t last_passed = whole_ticket(passed, told);
  const std::uint64_t last_begun = whole_ticket(begun, told);
  const std::lock_guard lock(mutex_);
  if (last_begun > last_passed) {
    const auto found = std::ranges::find(collectives_, last_begun, &Collective::ticket);
    return {.doing = LaneState::Doing::kRuns,
            .ticket = last_begun,
            .work = found == collectives_.end() ? newest_ : found->label};
  }
  const bool done = last_passed >= told;
  return {.doing = done ? LaneState::Doing::kNothing : LaneState::Doing::kQueued,
          .ticket = last_passed,
          .work = newest_};
}

}  // namespace strata
