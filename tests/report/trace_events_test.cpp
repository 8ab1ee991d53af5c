// Tests reading Chrome traces, whole and cut off, and putting neighbours together.

#include "strata/report/trace_events.h"

#include <cstddef>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using Json = nlohmann::json;

Json span(int lane, double begin_us, double length_us, int unit, int cell) {
  return {{"ph", "X"},
          {"name", "matmul"},
          {"cat", "kernel"},
          {"pid", 0},
          {"tid", lane},
          {"ts", begin_us},
          {"dur", length_us},
          {"args", {{"phase", "forward"}, {"pass", 0}, {"unit", unit}, {"cell", cell}}}};
}

Json lane_name(int lane, const char* name) {
  return {
      {"ph", "M"}, {"name", "thread_name"}, {"pid", 0}, {"tid", lane}, {"args", {{"name", name}}}};
}

/// A trace of `units` units of 10 cells of 10 kernels of 1 us, without pauses between them.
std::string trace_of(int units) {
  Json events{lane_name(0, "compute"), lane_name(3, "out"), lane_name(5, "host")};
  for (int i = 0; i < 100 * units; ++i) {
    events.push_back(span(0, i, 1, i / 100, i / 10 % 10));
  }
  events.push_back(span(3, 5, 2.5, 1, -1));
  return json_text(Json{{"displayTimeUnit", "ms"}, {"traceEvents", events}});
}

TEST_CASE("a trace is read by lanes, without those that did nothing") {
  const ScratchFolder folder;
  const TraceEvents trace = read_trace(folder.write("trace.json", trace_of(3)));
  CHECK(trace.whole);
  CHECK(trace.events == 301);
  CHECK(trace.spans() == 301);
  REQUIRE(trace.lanes.size() == 2);
  CHECK(trace.lanes[0].name == "compute");
  CHECK(trace.lanes[1].name == "out");
  const TraceSpan& out = trace.lanes[1].spans[0];
  CHECK(out.begin_us == 5);
  CHECK(out.end_us == 7.5);
  CHECK(out.unit == 1);
  CHECK(out.cell == -1);
  CHECK(trace.names[static_cast<std::size_t>(out.name)] == "matmul");
  CHECK(trace.phases[static_cast<std::size_t>(out.phase)] == "forward");
}

TEST_CASE("a trace that ends early gives the events before that") {
  const ScratchFolder folder;
  const std::string text = trace_of(3);
  const TraceEvents trace = read_trace(folder.write("trace.json", text.substr(0, text.size() / 2)));
  CHECK_FALSE(trace.whole);
  CHECK(trace.events > 100);
  CHECK(trace.events < 200);
  const TraceEvents none = read_trace(folder.write("trace.json", "what is this"));
  CHECK_FALSE(none.whole);
  CHECK(none.lanes.empty());
  CHECK_THROWS_AS(read_trace(folder.file("nowhere.json")), IoError);
}

TEST_CASE("work at times that no step has is damaged, and the rest is shown") {
  const ScratchFolder folder;
  Json early = span(0, -1, 1, 0, 0);
  Json timeless = span(0, 0, 1, 0, 0);
  timeless.erase("ts");
  for (const Json& odd : {span(0, 1e300, 1, 0, 0), span(0, 1, 1e300, 0, 0), early, timeless}) {
    const Json events{lane_name(0, "compute"), odd, span(0, 2, 3, 0, 0)};
    const TraceEvents trace =
        read_trace(folder.write("trace.json", json_text(Json{{"traceEvents", events}})));
    CHECK_FALSE(trace.whole);
    CHECK(trace.events == 1);
    REQUIRE(trace.lanes.size() == 1);
    CHECK(trace.lanes[0].spans[0].begin_us == 2);
  }
}

TEST_CASE("neighbours are put together by cell, then by unit, then by phase, as few as needed") {
  const ScratchFolder folder;
  const TraceEvents whole = read_trace(folder.write("trace.json", trace_of(30)));
  const auto spans_within = [&](std::size_t most) {
    TraceEvents trace = whole;
    put_together(trace, most);
    std::size_t events = 0;
    double busy_us = 0;
    for (const TraceSpan& s : trace.lanes[0].spans) {
      events += static_cast<std::size_t>(s.events);
      busy_us += s.end_us - s.begin_us;
    }
    CHECK(events == 3000);
    CHECK(busy_us == 3000);
    CHECK(trace.spans() <= most);
    return trace.lanes[0].spans.size();
  };
  CHECK(spans_within(5000) == 3000);
  CHECK(spans_within(2000) == 300);
  CHECK(spans_within(100) == 30);
  CHECK(spans_within(10) == 1);
}

}  // namespace
}  // namespace strata
