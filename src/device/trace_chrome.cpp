// Writes a trace in the Chrome trace event format, one row per lane, for chrome://tracing and
// Perfetto. Only submissions whose run was measured appear.

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "device/trace_impl.h"
#include "strata/base/json.h"
#include "strata/base/output_file.h"

namespace strata {

namespace {

using nlohmann::json;

std::string_view name_of(SubmissionKind kind) {
  switch (kind) {
    case SubmissionKind::kKernel: return "kernel";
    case SubmissionKind::kCopy: return "copy";
    case SubmissionKind::kSet: return "set";
    case SubmissionKind::kHostTask: return "host_task";
    case SubmissionKind::kCollective: return "collective";
  }
  return "?";
}

json arguments(const TraceRecord& record) {
  const Tag& tag = record.what.tag;
  json args = {{"ticket", record.ticket}};
  if (!tag.phase.empty()) args["phase"] = tag.phase;
  if (tag.pass >= 0) args["pass"] = tag.pass;
  if (tag.unit >= 0) args["unit"] = tag.unit;
  if (tag.cell >= 0) args["cell"] = tag.cell;
  if (record.what.cost.flops > 0) args["flops"] = record.what.cost.flops;
  for (const Wait& wait : record.waits) {
    args["waits"].push_back(text_of(wait.event) + " " + std::string(strata::name_of(wait.why)));
  }
  return args;
}

json name_event(const char* what, int lane, std::string_view name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 0}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

void Recorder::write_chrome_trace(const std::string& file) const {
  // Events are written one by one: as one document they would take several times what they are of.
  OutputFile out(file);
  const auto put = [&out](const std::string& text) { out.write(text.data(), text.size()); };
  put(R"({"displayTimeUnit":"ms","traceEvents":[)" +
      json_text(name_event("process_name", 0, "strata")));
  const auto write = [&put](const json& event) { put(',' + json_text(event)); };
  // Taken once: what ends while this is written may have begun before all that had ended.
  std::array<std::vector<Impl::Run>, kLaneCount> runs;
  double begin_us = std::numeric_limits<double>::infinity();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    write(name_event("thread_name", lane, strata::name_of(static_cast<Lane>(lane))));
    auto& of_lane = runs[static_cast<std::size_t>(lane)];
    of_lane = impl_->recorded_runs(static_cast<Lane>(lane));
    if (!of_lane.empty()) begin_us = std::min(begin_us, of_lane.front().begin_us);
  }
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const auto& records = impl_->on_lane[static_cast<std::size_t>(lane)];
    for (const auto& run : runs[static_cast<std::size_t>(lane)]) {
      const auto at = std::ranges::lower_bound(records, run.ticket, {}, &Impl::Position::ticket);
      const TraceRecord& record = impl_->records[at->record];
      write({{"ph", "X"},
             {"name", record.what.name},
             {"cat", name_of(record.what.kind)},
             {"pid", 0},
             {"tid", lane},
             {"ts", run.begin_us - begin_us},
             {"dur", run.end_us - run.begin_us},
             {"args", arguments(record)}});
    }
  }
  put("]}\n");
  out.close();
  out.publish();
}

}  // namespace strata
