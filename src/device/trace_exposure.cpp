// Finds how much of some work was hidden under compute. Each gap of the compute lane is followed
// back from its end through what released what; the parts of that chain that belong to the work are
// exposed.

#include <algorithm>
#include <array>

#include "device/trace_impl.h"

namespace strata {

namespace {

using Run = TraceRun;

/// All measured runs, by lane. (This is no prediction: strata::Timeline is another class.)
class Timeline {
 public:
  explicit Timeline(std::array<std::vector<Run>, kLaneCount> runs) : runs_(std::move(runs)) {}

  [[nodiscard]] const std::vector<Run>& of(Lane lane) const { return runs_[index_of(lane)]; }
  /// Returns the last run up to the event, or null if there is none.
  [[nodiscard]] const Run* last(Event event) const {
    const auto& lane = of(event.lane);
    const auto behind = std::ranges::upper_bound(lane, event.ticket, {}, &Run::ticket);
    return behind == lane.begin() ? nullptr : &*std::prev(behind);
  }

 private:
  std::array<std::vector<Run>, kLaneCount> runs_;
};

/// A run with the lane it was on.
struct Placed {
  Lane lane = Lane::kCompute;
  const Run* run = nullptr;
};

double overlap(const Run& run, double begin_us, double end_us) {
  return std::max(0.0, std::min(run.end_us, end_us) - std::max(run.begin_us, begin_us));
}

}  // namespace

Recorder::WorkTime Recorder::work_time(std::string_view name) const {
  std::array<std::vector<Run>, kLaneCount> runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i] = impl_->recorded_runs(static_cast<Lane>(i));
  }
  const Timeline timeline(std::move(runs));
  const auto record_of = [&](Placed at) -> const TraceRecord& {
    return impl_->records[impl_->record_at({at.lane, at.run->ticket})];
  };
  // Returns who let a run go last: its predecessor on the lane, or what it waited for.
  const auto released_by = [&](Placed at) {
    Placed latest{at.lane, timeline.last({at.lane, at.run->ticket - 1})};
    for (const Wait& wait : record_of(at).waits) {
      const Placed other{wait.event.lane, timeline.last(wait.event)};
      if (other.run == nullptr) continue;
      if (latest.run == nullptr || other.run->end_us > latest.run->end_us) latest = other;
    }
    return latest;
  };

  WorkTime time;
  const std::vector<Run>& compute = timeline.of(Lane::kCompute);
  if (compute.empty()) return time;
  const double begin_us = compute.front().begin_us;
  const double end_us = compute.back().end_us;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    for (const Run& run : timeline.of(lane)) {
      if (record_of({lane, &run}).what.name != name) continue;
      time.busy_s += overlap(run, begin_us, end_us) * 1e-6;
    }
  }
  for (std::size_t i = 1; i < compute.size(); ++i) {
    const double gap_us = compute[i - 1].end_us;
    Placed at{Lane::kCompute, &compute[i]};
    while (at.run->begin_us > gap_us) {
      const double until_us = at.run->begin_us;
      at = released_by(at);
      if (at.run == nullptr || at.run->end_us <= gap_us) break;
      if (record_of(at).what.name != name) continue;
      time.exposed_s += overlap(*at.run, gap_us, until_us) * 1e-6;
    }
  }
  return time;
}

}  // namespace strata
