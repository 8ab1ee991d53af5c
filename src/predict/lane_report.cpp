// Adds up the seconds of a trace by lane and by sort of work, and divides them by the number of
// steps. A recorder already knows when each piece of work ran, and for how long compute stood still
// because of it.

#include "strata/predict/lane_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace strata {

std::vector<LaneReport> lane_times(const Recorder& recorder, int steps) {
  const std::vector<double> exposed = recorder.exposed_s();
  std::vector<LaneReport> lanes;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    lanes.push_back({.lane = std::string(name_of(lane)),
                     .busy_s = recorder.lane_time(lane).busy_s / steps,
                     .exposed_s = exposed.at(static_cast<std::size_t>(i)) / steps});
  }
  return lanes;
}

std::vector<WorkReport> work_times(const Recorder& recorder, int steps) {
  std::map<std::tuple<Lane, std::string_view, CostKind, double>, WorkReport> sorts;
  const std::vector<double> durations = recorder.durations_s();
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const TraceRecord& record = recorder.records()[i];
    if (record.by_submitter) continue;
    const Submission& what = record.what;
    WorkReport& sort = sorts[{record.lane, what.name, what.cost.kind, what.cost.flops}];
    sort.lane = name_of(record.lane);
    sort.name = what.name;
    sort.kind = what.cost.kind;
    sort.flops = what.cost.flops;
    sort.bytes += static_cast<double>(moved_bytes(what));
    sort.count += 1;
    sort.busy_s += durations[i] / steps;
  }
  std::vector<WorkReport> reports;
  for (auto& [key, sort] : sorts) {
    sort.bytes /= sort.count;
    sort.count /= steps;
    reports.push_back(sort);
  }
  std::ranges::stable_sort(reports, std::ranges::greater{}, &WorkReport::busy_s);
  return reports;
}

}  // namespace strata
