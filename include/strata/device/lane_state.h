// Says what a lane is at, for whoever watches a run that may hang. Device::lane_state() says it at
// any time and to any thread; nothing is recorded for it beyond what lanes keep anyway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/device/lane.h"
#include "strata/device/trace.h"

namespace strata {

/// The oldest work of one lane that has not finished, as far as the host can tell.
struct LaneState {
  /// What the lane does with that work.
  enum class Doing : std::uint8_t {
    kNothing,  ///< there is no such work
    kRuns,     ///< it has begun
    kWaits,    ///< it begins once `waits_for` has passed
    kQueued,   ///< a driver has it and does not say whether it has begun
  };
  Doing doing = Doing::kNothing;
  std::uint64_t ticket = 0;  ///< of the work, or of what ran before it
  SubmissionLabel work{};    ///< what it is called; for kQueued that of the newest submission
  std::optional<Event> waits_for{};  ///< for kWaits

  /// Returns whether the lane did the same at both times.
  [[nodiscard]] bool same_as(const LaneState& other) const {
    const Event a = waits_for.value_or(Event{});
    const Event b = other.waits_for.value_or(Event{});
    return doing == other.doing && ticket == other.ticket && a.lane == b.lane &&
           a.ticket == b.ticket;
  }
};

/// Returns "the compute lane runs \"matmul\" (forward pass=0 unit=3)", or that it does nothing.
[[nodiscard]] std::string text_of(Lane lane, const LaneState& state);

}  // namespace strata
