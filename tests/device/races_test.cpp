// Tests the race oracle on hand-made traces, on random ones against the definition (reachability
// and all pairs), and on a pipeline with one kind of wait left out at a time.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/pipeline.h"
#include "strata/base/random.h"
#include "strata/device/arena.h"
#include "strata/device/trace.h"
#include "support/catch.h"

using namespace strata;

namespace {

/// Hand-made records over a stretch of memory that is never touched.
class Script {
 public:
  Script() {
    recorder.arena("arena", Space::kDevice, {memory.data(), memory.size()});
    recorder.start();
  }

  ByteRange bytes(std::size_t begin, std::size_t count) const {
    return {memory.data() + begin, count};
  }
  Event reads(Lane lane, ByteRange range, const std::vector<Event>& after = {}) {
    return add(lane, {{range}, {}}, after);
  }
  Event writes(Lane lane, ByteRange range, const std::vector<Event>& after = {}) {
    return add(lane, {{}, {range}}, after);
  }
  Event add(Lane lane, Accesses accesses, const std::vector<Event>& after) {
    const std::uint64_t ticket = ++tickets_[static_cast<std::size_t>(lane)];
    TraceRecord record{.lane = lane,
                       .ticket = ticket,
                       .what = {.name = "work", .accesses = std::move(accesses), .tag = {}},
                       .waits = {},
                       .joined = std::exchange(joined_, {})};
    for (const Event& event : after) record.waits.push_back({event, WaitFor::kFilled});
    recorder.submitted(std::move(record));
    return {lane, ticket};
  }
  /// The submitting thread waits.
  void join(Event event) { joined_.push_back(event); }
  /// The submitting thread touches memory.
  void submitter(Accesses accesses) {
    recorder.submitted({.what = {.name = "host", .accesses = std::move(accesses), .tag = {}},
                        .waits = {},
                        .joined = std::exchange(joined_, {}),
                        .by_submitter = true});
  }
  std::size_t races() const { return recorder.races().size(); }

  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  Recorder recorder;

 private:
  std::array<std::uint64_t, kLaneCount> tickets_{};
  std::vector<Event> joined_;
};

constexpr Lane kA = Lane::kCompute;
constexpr Lane kB = Lane::kWeightsIn;
constexpr Lane kC = Lane::kOut;

}  // namespace

TEST_CASE("two lanes that write the same bytes without an order race") {
  Script s;
  s.writes(kA, s.bytes(0, 100));
  s.writes(kB, s.bytes(0, 100));
  const std::vector<Race> races = s.recorder.races();
  REQUIRE(races.size() == 1);
  CHECK(races[0].first == 0);
  CHECK(races[0].second == 1);
  CHECK(races[0].bytes.begin == s.memory.data());
  CHECK(races[0].bytes.bytes == 100);
}

TEST_CASE("a wait orders two lanes") {
  Script s;
  const Event filled = s.writes(kA, s.bytes(0, 100));
  const Event read = s.reads(kB, s.bytes(0, 100), {filled});
  s.writes(kA, s.bytes(0, 100), {read});
  CHECK(s.races() == 0);
}

TEST_CASE("a read before its write and a write before its read race; two reads do not") {
  Script written_first;
  written_first.writes(kA, written_first.bytes(0, 8));
  written_first.reads(kB, written_first.bytes(0, 8));
  CHECK(written_first.races() == 1);
  Script read_first;
  read_first.reads(kA, read_first.bytes(0, 8));
  read_first.writes(kB, read_first.bytes(0, 8));
  CHECK(read_first.races() == 1);
  Script both_read;
  both_read.reads(kA, both_read.bytes(0, 8));
  both_read.reads(kB, both_read.bytes(0, 8));
  CHECK(both_read.races() == 0);
}

TEST_CASE("ranges that share one byte race, ranges that touch do not") {
  Script s;
  s.writes(kA, s.bytes(100, 100));
  s.reads(kB, s.bytes(0, 100));
  s.reads(kB, s.bytes(200, 100));
  CHECK(s.races() == 0);
  s.reads(kB, s.bytes(199, 100));
  const std::vector<Race> races = s.recorder.races();
  REQUIRE(races.size() == 1);
  CHECK(races[0].bytes.begin == s.memory.data() + 199);
  CHECK(races[0].bytes.bytes == 1);
}

TEST_CASE("a write over many pieces is compared with each of them") {
  Script s;
  for (std::size_t i = 0; i < 10; ++i) s.reads(kA, s.bytes(10 * i, 5));
  const Event middle = s.reads(kA, s.bytes(150, 5));
  s.reads(kB, s.bytes(57, 2));
  s.writes(kC, s.bytes(0, 200), {middle});
  const std::vector<Race> races = s.recorder.races();
  REQUIRE(races.size() == 1);
  CHECK(races[0].first == 11);
  CHECK(races[0].bytes.begin == s.memory.data() + 57);
}

TEST_CASE("order is transitive over lanes") {
  Script s;
  const Event a = s.writes(kA, s.bytes(0, 8));
  const Event b = s.add(kB, {}, {a});
  s.reads(kC, s.bytes(0, 8), {b});
  CHECK(s.races() == 0);
  CHECK_FALSE(s.recorder.may_overlap(0, 2));
}

TEST_CASE("a wait holds for everything later in its lane, and only for that") {
  Script s;
  s.reads(kB, s.bytes(8, 8));
  const Event a = s.writes(kA, s.bytes(0, 8));
  s.add(kB, {}, {a});
  s.reads(kB, s.bytes(0, 8));
  CHECK(s.races() == 0);
  // The first piece of lane B came before the wait.
  CHECK(s.recorder.may_overlap(0, 1));
  CHECK_FALSE(s.recorder.may_overlap(1, 3));
}

TEST_CASE("a wait for an earlier ticket does not cover later ones") {
  Script s;
  const Event early = s.add(kA, {}, {});
  s.writes(kA, s.bytes(0, 8));
  s.reads(kB, s.bytes(0, 8), {early});
  CHECK(s.races() == 1);
}

TEST_CASE("a write must wait for the readers of all lanes") {
  Script s;
  const Event first = s.reads(kA, s.bytes(0, 8));
  s.reads(kB, s.bytes(0, 8));
  s.writes(kC, s.bytes(0, 8), {first});
  const std::vector<Race> races = s.recorder.races();
  REQUIRE(races.size() == 1);
  CHECK(races[0].first == 1);
}

TEST_CASE("work that reads and writes the same bytes does not race with itself") {
  Script s;
  s.add(kA, {{s.bytes(0, 64)}, {s.bytes(0, 64), s.bytes(32, 64)}}, {});
  CHECK(s.races() == 0);
}

TEST_CASE("what the submitting thread touches comes before all that it submits later") {
  Script s;
  s.submitter({{}, {s.bytes(0, 64)}});
  s.reads(kA, s.bytes(0, 64));
  s.reads(kB, s.bytes(0, 64));
  CHECK(s.races() == 0);
}

TEST_CASE("the submitting thread must wait before it touches what a lane writes") {
  Script careless;
  careless.writes(kA, careless.bytes(0, 64));
  careless.submitter({{careless.bytes(0, 64)}, {}});
  REQUIRE(careless.races() == 1);
  CHECK_THAT(careless.recorder.races()[0].text, ContainsSubstring("the submitting thread"));

  Script careful;
  const Event written = careful.writes(kA, careful.bytes(0, 64));
  careful.join(written);
  careful.submitter({{careful.bytes(0, 64)}, {}});
  careful.writes(kB, careful.bytes(0, 64));
  CHECK(careful.races() == 0);
}

TEST_CASE("work submitted after the submitting thread waited is ordered behind it") {
  Script s;
  const Event a = s.writes(kA, s.bytes(0, 64));
  s.join(s.add(kB, {}, {a}));
  s.writes(kC, s.bytes(0, 64));
  CHECK(s.races() == 0);
}

TEST_CASE("work submitted before the recording counts as finished") {
  Script s;
  s.recorder.stop();
  const Event before = s.writes(kA, s.bytes(0, 64));
  s.recorder.start();
  s.reads(kB, s.bytes(0, 64));
  s.reads(kC, s.bytes(0, 64), {before});
  CHECK(s.recorder.records().size() == 2);
  CHECK(s.races() == 0);
}

TEST_CASE("at most as many races are returned as were asked for") {
  Script s;
  for (std::size_t i = 0; i < 10; ++i) {
    s.writes(kA, s.bytes(10 * i, 10));
    s.writes(kB, s.bytes(10 * i, 10));
  }
  CHECK(s.recorder.races(3).size() == 3);
  CHECK(s.recorder.races(100).size() == 10);
}

TEST_CASE("a race is told by name, lane, tag and place") {
  Script s;
  s.recorder.submitted({.lane = kB,
                        .ticket = 41,
                        .what = {.name = "copy",
                                 .accesses = {{}, {s.bytes(512, 256)}},
                                 .tag = {.phase = "forward", .unit = 3}},
                        .waits = {},
                        .joined = {}});
  s.recorder.submitted({.lane = kA,
                        .ticket = 7,
                        .what = {.name = "matmul",
                                 .accesses = {{s.bytes(600, 8)}, {}},
                                 .tag = {.phase = "forward", .unit = 3, .cell = 2}},
                        .waits = {},
                        .joined = {}});
  REQUIRE(s.races() == 1);
  const std::string text = s.recorder.races()[0].text;
  CAPTURE(text);
  CHECK_THAT(text, ContainsSubstring("copy (weights_in lane, ticket 41 forward unit=3) writes"));
  CHECK_THAT(text,
             ContainsSubstring("matmul (compute lane, ticket 7 forward unit=3 cell=2) reads"));
  CHECK_THAT(text, ContainsSubstring("arena+600:8"));
}

namespace {

/// Order and races by definition: reachability in the graph of direct orders, and all pairs.
class Naive {
 public:
  explicit Naive(const std::vector<TraceRecord>& records) : records_(records) {
    for (std::size_t b = 0; b < records.size(); ++b) {
      std::vector<bool> row(b, false);
      for (std::size_t a = b; a-- > 0;) {
        if (row[a] || !direct(a, b)) continue;
        row[a] = true;
        for (std::size_t i = 0; i < a; ++i) row[i] = row[i] || before_[a][i];
      }
      before_.push_back(row);
    }
  }
  bool ordered(std::size_t a, std::size_t b) const { return before_[b][a]; }
  bool races(std::size_t a, std::size_t b) const {
    const Accesses& x = records_[a].what.accesses;
    const Accesses& y = records_[b].what.accesses;
    return !ordered(a, b) && (overlap(x.writes, y.writes) || overlap(x.writes, y.reads) ||
                              overlap(x.reads, y.writes));
  }

 private:
  static bool overlap(const std::vector<ByteRange>& x, const std::vector<ByteRange>& y) {
    for (const ByteRange& p : x) {
      for (const ByteRange& q : y) {
        if (p.begin < q.begin + q.bytes && q.begin < p.begin + p.bytes) return true;
      }
    }
    return false;
  }
  bool names(const Event& event, std::size_t a) const {
    const TraceRecord& record = records_[a];
    return !record.by_submitter && record.lane == event.lane && record.ticket <= event.ticket;
  }
  bool direct(std::size_t a, std::size_t b) const {
    const TraceRecord& x = records_[a];
    const TraceRecord& y = records_[b];
    if (x.by_submitter) return true;
    if (!y.by_submitter && x.lane == y.lane) return true;
    for (const Wait& wait : y.waits) {
      if (names(wait.event, a)) return true;
    }
    for (std::size_t i = 0; i <= b; ++i) {
      for (const Event& event : records_[i].joined) {
        if (names(event, a)) return true;
      }
    }
    return false;
  }

  const std::vector<TraceRecord>& records_;
  std::vector<std::vector<bool>> before_;
};

}  // namespace

TEST_CASE("the oracle agrees with the definition on random traces") {
  int racy = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Script s;
    std::vector<Event> events;
    std::uint64_t draws = 0;
    const auto draw = [&](std::uint64_t below) { return random_bits(seed, 9, draws++) % below; };
    // Later seeds share fewer bytes and wait more, so that some traces are clean.
    const auto range = [&] { return s.bytes(draw(100 + 60 * seed), 1 + draw(20)); };
    for (int i = 0; i < 60; ++i) {
      Accesses accesses;
      for (std::uint64_t k = draw(3); k > 0; --k) accesses.reads.push_back(range());
      for (std::uint64_t k = draw(5) / 3; k > 0; --k) accesses.writes.push_back(range());
      if (!events.empty() && draw(12) == 0) s.join(events[draw(events.size())]);
      if (draw(15) == 0) {
        s.submitter(std::move(accesses));
        continue;
      }
      std::vector<Event> after;
      for (std::uint64_t k = draw(2 + seed / 4); !events.empty() && k > 0; --k) {
        after.push_back(events[events.size() - 1 - draw(std::min<std::size_t>(events.size(), 8))]);
      }
      events.push_back(s.add(static_cast<Lane>(draw(kLaneCount)), std::move(accesses), after));
    }

    const Naive naive(s.recorder.records());
    std::optional<std::size_t> first_detected;
    for (std::size_t b = 0; b < s.recorder.records().size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        REQUIRE(s.recorder.may_overlap(a, b) == !naive.ordered(a, b));
        REQUIRE(s.recorder.may_overlap(b, a) == !naive.ordered(a, b));
        if (!first_detected && naive.races(a, b)) first_detected = b;
      }
    }
    const std::vector<Race> races = s.recorder.races(1000);
    for (const Race& race : races) REQUIRE(naive.races(race.first, race.second));
    REQUIRE(races.empty() == !first_detected.has_value());
    if (first_detected) REQUIRE(races.front().second == *first_detected);
    racy += races.empty() ? 0 : 1;
  }
  // Both outcomes must have been tried.
  CHECK(racy > 5);
  CHECK(racy < 55);
}

TEST_CASE("a long trace is checked without comparing all pairs") {
  Script s;
  std::array<Event, 8> read{};
  for (std::size_t i = 0; i < 10000; ++i) {
    const std::size_t slot = i % read.size();
    const Event filled = s.writes(kB, s.bytes(512 * slot, 512), {read[slot]});
    read[slot] = s.reads(kA, s.bytes(512 * slot, 512), {filled});
  }
  CHECK(s.races() == 0);
  s.writes(kB, s.bytes(0, 4096));
  CHECK(s.races() == 8);
}

TEST_CASE("a pipeline with all its waits has no race, in any execution") {
  for (const Execution execution : {Execution::kEager, Execution::kThreads, Execution::kShuffled}) {
    Recorder trace;
    trace.start();
    const auto device = make_cpu_device({.execution = execution, .trace = &trace});
    test::Pipeline pipeline(*device);
    pipeline.submit(3);
    (void)pipeline.weights();
    const std::vector<Race> races = trace.races();
    CAPTURE(races.empty() ? "" : races[0].text);
    CHECK(races.empty());
  }
}

TEST_CASE("each kind of wait left out of the pipeline is found, from a run with right numbers") {
  for (int kind = 0; kind < kProtectingWaitCount; ++kind) {
    const auto why = static_cast<WaitFor>(kind);
    CAPTURE(name_of(why));
    Recorder trace;
    trace.start();
    const auto device =
        make_cpu_device({.execution = Execution::kEager, .omit_wait = why, .trace = &trace});
    test::Pipeline pipeline(*device);
    pipeline.submit(3);
    CHECK(pipeline.weights() == test::pipeline_reference(3));
    CHECK_FALSE(trace.races().empty());
  }
}

TEST_CASE("bytes that the save lane reads must be saved before a host task changes them") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    Recorder trace;
    trace.start();
    const auto device = make_cpu_device({.trace = &trace});
    Arena arena(*device, Space::kPinned, 4096, "host");
    std::byte* const state = arena.allocate("state", 256);
    const auto reads = [&] { return Accesses({{state, 256}}, {}); };
    const auto writes = [&] { return Accesses({}, {{state, 256}}); };
    Stream& host = device->stream(Lane::kHost);
    Stream& save = device->stream(Lane::kSave);
    host.host_task("update", writes, {.pass = 0}, [] {});
    save.wait(host.record(), WaitFor::kUpdated);
    save.host_task("save", reads, {}, [] {});
    if (waits) host.wait(save.record(), WaitFor::kSaved);
    host.host_task("update", writes, {.pass = 1}, [] {});
    device->synchronize();
    CHECK(trace.may_overlap(1, 2) == !waits);
    const std::vector<Race> races = trace.races();
    REQUIRE(races.size() == (waits ? 0U : 1U));
    if (waits) continue;
    CHECK_THAT(races[0].text, ContainsSubstring("save (save lane, ticket 1) reads"));
    CHECK_THAT(races[0].text, ContainsSubstring("update (host lane, ticket 2 pass=1) writes"));
  }
}

TEST_CASE("the pipeline keeps its promise of overlap") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  test::Pipeline pipeline(*device);
  pipeline.submit(2);
  const auto only = [&](std::string_view name, Tag tag) {
    const std::vector<std::size_t> found = trace.find(name, tag);
    REQUIRE(found.size() == 1);
    return found[0];
  };
  const std::size_t compute = only("gradient", {.pass = 1, .unit = 1});
  CHECK(trace.may_overlap(compute, only("copy", {.phase = "load", .pass = 1, .unit = 2})));
  CHECK(trace.may_overlap(compute, only("update", {.pass = 1, .unit = 0})));
  CHECK(trace.may_overlap(compute, only("save", {.phase = "save", .unit = 0})));
  CHECK(trace.may_overlap(compute, only("copy", {.phase = "step", .pass = 1, .unit = 0})));
  CHECK_FALSE(trace.may_overlap(compute, only("copy", {.phase = "load", .pass = 1, .unit = 1})));
  CHECK_FALSE(trace.may_overlap(compute, only("update", {.pass = 1, .unit = 1})));
  CHECK_FALSE(trace.may_overlap(compute, compute));
}
