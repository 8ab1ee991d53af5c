// Reads a Chrome trace. A trace of a large model has hundreds of thousands of events. They are
// taken one by one while the file is parsed and never stand in memory as JSON.

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "report/json_lines.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/report/trace_events.h"

namespace strata {

namespace {

using Json = nlohmann::json;

std::int32_t index_of(std::vector<std::string>& names, std::map<std::string, std::int32_t>& known,
                      const std::string& name) {
  const auto [at, is_new] = known.try_emplace(name, static_cast<std::int32_t>(names.size()));
  if (is_new) names.push_back(name);
  return at->second;
}

std::int32_t small_of(const Json& object, std::string_view key) {
  const std::int64_t value = integer_of(object, key).value_or(-1);
  return value >= 0 && value < (std::int64_t{1} << 30) ? static_cast<std::int32_t>(value) : -1;
}

/// Says whether a step may take so many microseconds: 30 years are more than any does, and longer
/// times overflow when they are counted.
bool is_time(double us) { return us >= 0 && us <= 1e15; }

class Reader {
 public:
  void take(const Json& event) {
    const std::string kind = text_of(event, "ph");
    const auto args = event.find("args");
    const Json& more = args != event.end() && args->is_object() ? *args : nothing_;
    const std::int64_t lane = integer_of(event, "tid").value_or(0);
    if (kind == "M" && text_of(event, "name") == "thread_name") {
      lane_names_[lane] = text_of(more, "name");
    }
    const double begin_us = number_of(event, "ts");
    const double length_us = number_of(event, "dur");
    if (kind != "X") return;
    if (!is_time(begin_us) || !is_time(length_us)) {
      damaged_ = true;
      return;
    }
    ++trace_.events;
    spans_[lane].push_back({.begin_us = begin_us,
                            .end_us = begin_us + length_us,
                            .name = index_of(trace_.names, names_, text_of(event, "name")),
                            .phase = index_of(trace_.phases, phases_, text_of(more, "phase")),
                            .pass = small_of(more, "pass"),
                            .unit = small_of(more, "unit"),
                            .cell = small_of(more, "cell")});
  }

  TraceEvents finish(bool whole) {
    trace_.whole = whole && !damaged_;
    for (auto& [lane, spans] : spans_) {
      std::ranges::stable_sort(spans, {}, &TraceSpan::begin_us);
      const std::string& name = lane_names_[lane];
      trace_.lanes.push_back({.name = name.empty() ? "lane " + std::to_string(lane) : name,
                              .spans = std::move(spans)});
    }
    return std::move(trace_);
  }

 private:
  const Json nothing_ = Json::object();
  TraceEvents trace_;
  bool damaged_ = false;
  std::map<std::int64_t, std::string> lane_names_;
  std::map<std::int64_t, std::vector<TraceSpan>> spans_;
  std::map<std::string, std::int32_t> names_;
  std::map<std::string, std::int32_t> phases_;
};

/// Says whether neighbours may become one span.
using Joins = bool (*)(const TraceSpan&, const TraceSpan&);

bool of_one_phase(const TraceSpan& a, const TraceSpan& b) { return a.phase == b.phase; }
bool of_one_unit(const TraceSpan& a, const TraceSpan& b) {
  return of_one_phase(a, b) && a.pass == b.pass && a.unit == b.unit;
}
bool of_one_cell(const TraceSpan& a, const TraceSpan& b) {
  return of_one_unit(a, b) && a.cell == b.cell;
}
bool any(const TraceSpan& /*a*/, const TraceSpan& /*b*/) { return true; }

void join(std::vector<TraceSpan>& spans, Joins joins, double most_pause_us) {
  std::vector<TraceSpan> joined;
  for (const TraceSpan& span : spans) {
    if (joined.empty() || !joins(joined.back(), span) ||
        span.begin_us - joined.back().end_us > most_pause_us) {
      joined.push_back(span);
      continue;
    }
    TraceSpan& last = joined.back();
    last.end_us = std::max(last.end_us, span.end_us);
    if (last.pass != span.pass) last.pass = -1;
    if (last.unit != span.unit) last.unit = -1;
    if (last.cell != span.cell) last.cell = -1;
    last.events += span.events;
  }
  spans = std::move(joined);
}

double length_us(const TraceEvents& trace) {
  double end_us = 0;
  for (const TraceLane& lane : trace.lanes) {
    for (const TraceSpan& span : lane.spans) end_us = std::max(end_us, span.end_us);
  }
  return end_us;
}

}  // namespace

std::size_t TraceEvents::spans() const {
  std::size_t count = 0;
  for (const TraceLane& lane : lanes) count += lane.spans.size();
  return count;
}

TraceEvents read_trace(const std::filesystem::path& file) {
  static_cast<void>(InputFile(file, Links::kRefuse));  // is a file, and no link or pipe
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(file.string() + ": cannot be read");
  Reader reader;
  const auto take = [&](int depth, Json::parse_event_t what, Json& parsed) {
    if (depth > kMostJsonLevels) throw ConfigError("nests too deeply");
    // {"traceEvents": [event, ...]}
    if (what != Json::parse_event_t::object_end || depth != 2) return true;
    reader.take(parsed);
    return false;
  };
  try {
    const Json rest = Json::parse(in, take, false);
    return reader.finish(!rest.is_discarded());
  } catch (const ConfigError&) {
    return reader.finish(false);
  }
}

void put_together(TraceEvents& trace, std::size_t most) {
  // A pause that is bridged must stay too short to be seen: a few thousandths of the whole.
  const double all_us = length_us(trace);
  for (const Joins joins : {of_one_cell, of_one_unit, of_one_phase, any}) {
    for (const double share : {1e-5, 1e-4, 1e-3}) {
      if (trace.spans() <= most) return;
      for (TraceLane& lane : trace.lanes) join(lane.spans, joins, share * all_us);
    }
  }
}

}  // namespace strata
