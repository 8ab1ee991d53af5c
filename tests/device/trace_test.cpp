// Tests what the recorder keeps and answers: canonical text, order, times and exposed work, on runs
// of the cpu device and on hand-made records whose answers are known.

#include "strata/device/trace.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/pipeline.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/json.h"

using namespace strata;

namespace {

constexpr auto kNothing = [] {};

std::string canonical_of(Execution execution) {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.execution = execution, .trace = &trace});
  test::Pipeline pipeline(*device);
  pipeline.submit(2);
  (void)pipeline.weights();
  return trace.canonical();
}

bool near(double a, double b) { return std::abs(a - b) < 1e-12; }

/// A record of hand-made work on the compute lane.
TraceRecord work(std::uint64_t ticket, std::vector<Wait> waits) {
  return {.lane = Lane::kCompute,
          .ticket = ticket,
          .what = {.name = "work", .accesses = {}, .tag = {}},
          .waits = std::move(waits),
          .joined = {}};
}

}  // namespace

TEST_CASE("the trace of a program is the same in every execution") {
  const std::string eager = canonical_of(Execution::kEager);
  CHECK(canonical_of(Execution::kThreads) == eager);
  CHECK(canonical_of(Execution::kShuffled) == eager);
  CHECK(std::count(eager.begin(), eager.end(), '\n') == 2 * 4 * 5 + 1 + 4 + 8 + 4);
  CHECK_THAT(eager, ContainsSubstring("submitter initialise unit=3 writes host+1280:256\n"));
  CHECK_THAT(eager, ContainsSubstring("weights_in@1 copy load pass=0 unit=0 reads host+512:256 "
                                      "writes device+0:256\n"));
  CHECK_THAT(eager, ContainsSubstring("compute@1 gradient step pass=0 unit=0 reads device+0:256 "
                                      "writes device+512:256 after weights_in@1(filled)\n"));
  CHECK_THAT(eager, ContainsSubstring("save@1 save save unit=0 reads host+512:256 "
                                      "writes host+1536:256 after host@6(updated)\n"));
  CHECK_THAT(eager, ContainsSubstring(" joined compute@8 joined weights_in@8 joined out@8"));
}

TEST_CASE("the canonical trace counts tickets from its start") {
  Recorder trace;
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  Stream& out = device->stream(Lane::kOut);
  Stream& host = device->stream(Lane::kHost);
  out.host_task("before", {}, {}, kNothing);
  const Event before = out.record();
  host.host_task("before", {}, {}, kNothing);
  trace.start();
  host.wait(before, WaitFor::kArrived);
  host.host_task("a", {}, {}, kNothing);
  out.host_task("b", {}, {}, kNothing);
  host.wait(out.record(), WaitFor::kArrived);
  host.host_task("c", {}, {}, kNothing);
  CHECK(trace.canonical() ==
        "host@1 a after out@0(arrived)\n"
        "out@1 b\n"
        "host@2 c after out@1(arrived)\n");
}

TEST_CASE("a copy says which way it goes, and every submission how many bytes it moves") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  Arena on_device(*device, Space::kDevice, 1024, "device");
  Arena on_host(*device, Space::kPinned, 1024, "host");
  std::byte* const there = on_device.allocate("there", 512);
  std::byte* const here = on_host.allocate("here", 512);
  Stream& out = device->stream(Lane::kOut);
  out.copy(there, here, 100, {});
  out.copy(here, there, 200, {});
  out.copy(there + 256, there, 128, {});
  out.set(there, 0, 64, {});
  out.host_task("task", [&] { return Accesses({{here, 16}}, {{here + 64, 8}}); }, {}, kNothing);
  const std::vector<CostKind> kinds{CostKind::kLinkIn, CostKind::kLinkOut, CostKind::kMemory,
                                    CostKind::kMemory, CostKind::kMemory};
  const std::vector<std::size_t> bytes{100, 200, 128, 64, 24};
  REQUIRE(trace.records().size() == kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CHECK(trace.records()[i].what.cost.kind == kinds[i]);
    CHECK(moved_bytes(trace.records()[i].what) == bytes[i]);
  }
}

TEST_CASE("every record has the time that it ran") {
  Recorder trace;
  trace.start();
  trace.submitted(work(1, {}));
  trace.submitted(work(2, {}));
  trace.submitted(work(3, {}));
  trace.ran(Lane::kCompute, 3, 5e6, 9e6);
  trace.ran(Lane::kCompute, 1, 1e6, 1.5e6);
  trace.ran(Lane::kCompute, 7, 0, 1e6);
  const std::vector<double> durations = trace.durations_s();
  REQUIRE(durations.size() == 3);
  CHECK(near(durations[0], 0.5));
  CHECK(durations[1] == 0);
  CHECK(near(durations[2], 4));
}

TEST_CASE("memory outside of every arena has no address in the canonical trace") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  const std::vector<std::byte> heap(24);
  device->host_access("labels",
                      [&] { return Accesses({{heap.data(), heap.size()}, {nullptr, 8}}, {}); }, {});
  CHECK(trace.canonical() == "submitter labels reads pageable:24\n");
}

TEST_CASE("an arena that took the place of another one gives its name") {
  Recorder trace;
  const std::vector<std::byte> memory(1024);
  trace.arena("old", Space::kPinned, {memory.data(), 512});
  trace.arena("neighbour", Space::kPinned, {memory.data() + 512, 512});
  trace.arena("new", Space::kPinned, {memory.data() + 128, 384});
  trace.start();
  for (const std::size_t offset : {0u, 130u, 600u}) {
    trace.submitted(
        {.what = {.name = "x", .accesses = {{{memory.data() + offset, 1}}, {}}, .tag = {}},
         .waits = {},
         .joined = {},
         .by_submitter = true});
  }
  CHECK(trace.canonical() ==
        "submitter x reads pageable:1\n"
        "submitter x reads new+2:1\n"
        "submitter x reads neighbour+88:1\n");
}

TEST_CASE("nothing is recorded while the recorder is stopped, and clear forgets") {
  Recorder trace;
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  Stream& out = device->stream(Lane::kOut);
  CHECK_FALSE(trace.active());
  out.host_task("before", {}, {}, kNothing);
  trace.start();
  CHECK(trace.active());
  out.host_task("during", {}, {}, kNothing);
  trace.stop();
  out.host_task("after", {}, {}, kNothing);
  device->host_access("after", {}, {});
  REQUIRE(trace.records().size() == 1);
  CHECK(trace.records()[0].what.name == "during");
  CHECK(trace.records()[0].ticket == 2);
  trace.clear();
  CHECK(trace.records().empty());
  CHECK(trace.lane_time(Lane::kOut).span_s == 0);
}

TEST_CASE("records are found by name and by every field of the tag that is set") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  Stream& compute = device->stream(Lane::kCompute);
  for (int unit = 0; unit < 3; ++unit) {
    compute.host_task("a", {}, {.phase = "forward", .unit = unit, .cell = 0}, kNothing);
    compute.host_task("a", {}, {.phase = "backward", .unit = unit, .cell = 1}, kNothing);
    compute.host_task("b", {}, {.phase = "forward", .unit = unit}, kNothing);
  }
  CHECK(trace.find("a").size() == 6);
  CHECK(trace.find("a", {.phase = "forward"}) == std::vector<std::size_t>{0, 3, 6});
  CHECK(trace.find("a", {.unit = 1}) == std::vector<std::size_t>{3, 4});
  CHECK(trace.find("a", {.phase = "backward", .unit = 2, .cell = 1}) ==
        std::vector<std::size_t>{7});
  CHECK(trace.find("a", {.pass = 0}).empty());
  CHECK(trace.find("c").empty());
}

TEST_CASE("measured work does not overlap within a lane and follows what it waited for") {
  for (const Execution execution : {Execution::kEager, Execution::kThreads, Execution::kShuffled}) {
    Recorder trace;
    trace.start();
    const auto device = make_cpu_device({.execution = execution, .trace = &trace});
    test::Pipeline pipeline(*device);
    pipeline.submit(3);
    (void)pipeline.weights();
    for (int i = 0; i < kLaneCount; ++i) {
      const Recorder::LaneTime time = trace.lane_time(static_cast<Lane>(i));
      const bool used = static_cast<Lane>(i) != Lane::kActivationsIn;
      CAPTURE(name_of(static_cast<Lane>(i)));
      CHECK((time.span_s > 0) == used);
      CHECK(time.busy_s <= time.span_s * (1 + 1e-9));
    }
    CHECK(trace.exposed_s().size() == static_cast<std::size_t>(kLaneCount));
  }
}

TEST_CASE("a gap of the compute lane is charged to the lane that ended it") {
  Recorder trace;
  trace.start();
  const auto other = [&](Lane lane, double begin_us, double end_us) {
    trace.submitted({.lane = lane,
                     .ticket = 1,
                     .what = {.name = "load", .accesses = {}, .tag = {}},
                     .waits = {},
                     .joined = {}});
    trace.ran(lane, 1, begin_us, end_us);
    return Wait{{lane, 1}, WaitFor::kFilled};
  };
  const auto compute = [&](std::uint64_t ticket, double begin_us, double end_us,
                           std::vector<Wait> waits) {
    trace.submitted(work(ticket, std::move(waits)));
    trace.ran(Lane::kCompute, ticket, begin_us, end_us);
  };
  const Wait load = other(Lane::kWeightsIn, 0, 150);
  const Wait spill = other(Lane::kActivationsIn, 0, 190);
  const Wait early = other(Lane::kComm, 0, 20);
  compute(1, 0, 100, {});
  compute(2, 200, 300, {load, spill});  // 100 us until the activations arrived
  compute(3, 310, 400, {});             // 10 us of launching
  compute(4, 407, 500, {early});        // 7 us more: what it waited for had long happened
  compute(5, 500, 600, {});             // no gap

  const std::vector<double> exposed = trace.exposed_s();
  CHECK(near(exposed[static_cast<std::size_t>(Lane::kActivationsIn)], 100e-6));
  CHECK(near(exposed[static_cast<std::size_t>(Lane::kCompute)], 17e-6));
  CHECK(exposed[static_cast<std::size_t>(Lane::kWeightsIn)] == 0);
  CHECK(exposed[static_cast<std::size_t>(Lane::kComm)] == 0);
  CHECK(near(trace.lane_time(Lane::kCompute).busy_s, (100 + 100 + 90 + 93 + 100) * 1e-6));
  CHECK(near(trace.lane_time(Lane::kCompute).span_s, 600e-6));
}

TEST_CASE("work that held compute up through other lanes is exposed, the rest is hidden") {
  Recorder trace;
  trace.start();
  const auto run = [&](Lane lane, std::uint64_t ticket, const char* name, double begin_us,
                       double end_us, std::vector<Wait> waits) {
    trace.submitted({.lane = lane,
                     .ticket = ticket,
                     .what = {.name = name, .accesses = {}, .tag = {}},
                     .waits = std::move(waits),
                     .joined = {}});
    trace.ran(lane, ticket, begin_us, end_us);
  };
  const auto after = [](Lane lane, std::uint64_t ticket) {
    return std::vector<Wait>{{{lane, ticket}, WaitFor::kFilled}};
  };
  run(Lane::kHost, 1, "update", -50, 20, {});  // 20 us lie within compute's span
  run(Lane::kCompute, 1, "forward", 0, 100, {});
  run(Lane::kHost, 2, "update", 80, 140, {});
  run(Lane::kHost, 3, "norm", 140, 150, {});
  run(Lane::kHost, 4, "update", 150, 180, {});
  run(Lane::kWeightsIn, 1, "load", 190, 230, after(Lane::kHost, 4));
  // The gap from 100 to 230, from its end: load 40, 10 of nobody, update 30, norm 10, update 40.
  run(Lane::kCompute, 2, "forward", 230, 300, after(Lane::kWeightsIn, 1));
  run(Lane::kHost, 5, "update", 230, 290, {});  // under compute
  run(Lane::kOut, 1, "offload", 280, 320, {});
  run(Lane::kHost, 6, "update", 300, 310, {});  // in a gap, but nobody waited for it
  run(Lane::kCompute, 3, "backward", 320, 400, after(Lane::kOut, 1));
  run(Lane::kHost, 7, "update", 390, 500, {});  // 10 us lie within compute's span

  const Recorder::WorkTime update = trace.work_time("update");
  CHECK(near(update.busy_s, (20 + 60 + 30 + 60 + 10 + 10) * 1e-6));
  CHECK(near(update.exposed_s, (30 + 40) * 1e-6));
  CHECK(near(update.hidden(), 1 - 70.0 / 190));
  CHECK(near(trace.work_time("load").exposed_s, 40e-6));
  CHECK(near(trace.work_time("load").hidden(), 0));
  CHECK(trace.work_time("nothing of this name").busy_s == 0);
  CHECK(trace.work_time("nothing of this name").hidden() == 1);
  CHECK(Recorder::WorkTime{.busy_s = 1, .exposed_s = 1 + 1e-15}.hidden() == 0);
}

TEST_CASE("runs of work that was not recorded are ignored") {
  Recorder trace;
  trace.start();
  trace.submitted(work(5, {}));
  trace.ran(Lane::kCompute, 4, 0, 10);  // still running when the recording began
  trace.ran(Lane::kCompute, 5, 10, 15);
  CHECK(near(trace.lane_time(Lane::kCompute).span_s, 5e-6));
}

TEST_CASE("the Chrome trace is JSON with one event per submission") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.trace = &trace});
  test::Pipeline pipeline(*device);
  pipeline.submit(2);
  device->stream(Lane::kHost).host_task("with \"quotes\" and \\", {}, {}, kNothing);
  (void)pipeline.weights();
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("strata_trace_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << "something older and longer than nothing";
  trace.write_chrome_trace(file.string());
  const auto json = test::read_json(file);
  std::filesystem::remove(file);

  std::map<int, std::string> threads;
  std::set<std::pair<int, std::uint64_t>> submissions;
  std::set<std::string> names;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") threads[event.at("tid")] = event.at("args").at("name");
      continue;
    }
    REQUIRE(event.at("ph") == "X");
    CHECK(event.at("ts").get<double>() >= 0);
    CHECK(event.at("dur").get<double>() >= 0);
    names.insert(event.at("name"));
    CHECK(submissions.emplace(event.at("tid"), event.at("args").at("ticket")).second);
    if (event.at("name") == "gradient") {
      CHECK(event.at("args").at("phase") == "step");
      CHECK(event.at("cat") == "host_task");
      CHECK(event.at("args").at("waits").size() >= 1);
    }
  }
  CHECK(submissions.size() == 2 * 4 * 5 + 1 + 4 + 1);
  CHECK(names == std::set<std::string>{"copy", "decide", "gradient", "save", "sum", "update",
                                       "with \"quotes\" and \\"});
  CHECK(threads.size() == static_cast<std::size_t>(kLaneCount));
  CHECK(threads[static_cast<int>(Lane::kActivationsIn)] == "activations_in");
}

TEST_CASE("a trace file that cannot be written is an error that names it") {
  const Recorder trace;
  CHECK_THROWS_AS(trace.write_chrome_trace("/proc/no-such-folder/trace.json"), IoError);
  CHECK_THROWS_WITH(trace.write_chrome_trace("/proc/no-such-folder/trace.json"),
                    ContainsSubstring("/proc/no-such-folder/trace.json"));
}
