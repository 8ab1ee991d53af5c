// Tests predictions on small graphs whose end is known, with rates at which each piece of work
// takes a round number of seconds.

#include "strata/predict/timeline.h"

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.h"

using namespace strata;

namespace {

/// A second each: 1 GB over the link or of the host, 1 GB of device memory, a product of 1 TFLOP.
Rates second_rates() {
  Rates r;
  r.product_tflops = 1;
  r.attention_forward_tflops = 1;
  r.attention_backward_tflops = 1;
  r.device_gbs = 1;
  r.link_gbs = 1;
  r.host_gbs = 1;
  r.task_gbs = 1;
  return r;
}

/// Records as a device would make them.
class Graph {
 public:
  Event add(Lane lane, CostKind kind, double seconds, const std::vector<Event>& after = {}) {
    TraceRecord record;
    record.lane = lane;
    record.ticket = ++tickets_[static_cast<std::size_t>(lane)];
    record.what.name = "work";
    record.what.cost.kind = kind;
    if (kind == CostKind::kProduct) {
      record.what.cost.flops = seconds * 1e12;
    } else {
      record.what.cost.bytes = static_cast<std::size_t>(seconds * 1e9);
    }
    for (const Event& event : after) record.waits.push_back({event, WaitFor::kFilled});
    records_.push_back(std::move(record));
    return {lane, tickets_[static_cast<std::size_t>(lane)]};
  }
  Event compute(double seconds, const std::vector<Event>& after = {}) {
    return add(Lane::kCompute, CostKind::kProduct, seconds, after);
  }
  Event in(double seconds, const std::vector<Event>& after = {}) {
    return add(Lane::kWeightsIn, CostKind::kLinkIn, seconds, after);
  }
  Event out(double seconds, const std::vector<Event>& after = {}) {
    return add(Lane::kOut, CostKind::kLinkOut, seconds, after);
  }
  Event host(double seconds, const std::vector<Event>& after = {}) {
    return add(Lane::kHost, CostKind::kMemory, seconds, after);
  }
  /// A collective on a buffer of so many GB; nobody reads what is in it.
  Event collective(std::string_view name, double gb, const std::vector<Event>& after = {}) {
    const Event event = add(Lane::kComm, CostKind::kMemory, 0, after);
    Submission& what = records_.back().what;
    what.name = name;
    what.kind = SubmissionKind::kCollective;
    what.accesses.writes = {{&buffer_, static_cast<std::size_t>(gb * 1e9)}};
    return event;
  }
  std::vector<TraceRecord>& records() { return records_; }
  [[nodiscard]] PaperTrace paper(const Rates& rates = second_rates()) const {
    PaperTrace trace(rates);
    for (const TraceRecord& record : records_) trace.add(record);
    return trace;
  }
  [[nodiscard]] double end_s(const Rates& rates = second_rates()) const {
    return Timeline(paper(rates)).end_s();
  }

 private:
  std::vector<TraceRecord> records_;
  std::array<std::uint64_t, kLaneCount> tickets_{};
  std::byte buffer_{};
};

/// A gather of 4 GB among four ranks takes 0.25 s and 3 s, a sum in place twice as long.
Rates collective_rates() {
  Rates r = second_rates();
  CollectiveRate gather{.name = "all_gather", .start_us = 0.25e6, .sent = 0.75, .gbs = 1};
  CollectiveRate sum = gather;
  sum.name = "all_reduce";
  sum.sent = 1.5;
  r.collectives = {gather, sum};
  return r;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

void check_ends(const Timeline& timeline, const std::vector<double>& ends_s) {
  REQUIRE(timeline.records() == ends_s.size());
  for (std::size_t i = 0; i < ends_s.size(); ++i) CHECK(near(timeline.run(i).end_s, ends_s[i]));
}

double spent_s(const Timeline::CriticalPath& path, Lane lane) {
  return path.lanes_s[static_cast<std::size_t>(lane)];
}

/// `count` loads of `load_s` into a ring of `slots`, each used for `use_s`.
double ring_s(int slots, int count, double load_s, double use_s) {
  Graph graph;
  std::vector<Event> used;
  for (int i = 0; i < count; ++i) {
    std::vector<Event> free;
    if (i >= slots) free.push_back(used[static_cast<std::size_t>(i - slots)]);
    const Event filled = graph.in(load_s, free);
    used.push_back(graph.compute(use_s, {filled}));
  }
  return graph.end_s();
}

}  // namespace

TEST_CASE("work of two lanes that do not wait for each other overlaps") {
  Graph graph;
  graph.compute(2);
  graph.in(1);
  graph.in(0.5);
  CHECK(near(graph.end_s(), 2));
  graph.in(3);
  CHECK(near(graph.end_s(), 4.5));
}

TEST_CASE("a chain of waits takes the sum of its work, and is what the time went to") {
  Graph graph;
  const Event loaded = graph.in(1);
  const Event computed = graph.compute(2, {loaded});
  graph.compute(0.25);
  const Event gone = graph.out(3, {computed});
  graph.host(4, {gone});
  const PaperTrace paper = graph.paper();
  const Timeline timeline(paper);
  CHECK(near(timeline.end_s(), 10));
  CHECK(near(timeline.run(2).begin_s, 3));
  const Timeline::CriticalPath path = timeline.critical_path(4, 0.5);
  CHECK(near(spent_s(path, Lane::kWeightsIn), 0.5));
  CHECK(near(spent_s(path, Lane::kCompute), 2));
  CHECK(near(spent_s(path, Lane::kOut), 3));
  CHECK(near(spent_s(path, Lane::kHost), 4));
  CHECK(path.submit_s == 0);
}

TEST_CASE("the number of slots decides how far loads run ahead") {
  CHECK(near(ring_s(1, 5, 1, 3), 5 * (1 + 3)));
  CHECK(near(ring_s(2, 5, 1, 3), 1 + 5 * 3));
  CHECK(near(ring_s(2, 5, 3, 1), 5 * 3 + 1));
}

TEST_CASE("copies both ways slow each other while both run") {
  Rates rates = second_rates();
  rates.link_both_ways = 0.5;
  Graph graph;
  graph.in(1);
  graph.out(2);
  // Both at half speed until the load is there, then 1 s of the other is left.
  CHECK(near(graph.end_s(rates), 3));
}

TEST_CASE("of the two in-lanes one has the link until its next copy may not begin") {
  Graph graph;
  const auto other = [&](double seconds, const std::vector<Event>& after = {}) {
    return graph.add(Lane::kActivationsIn, CostKind::kLinkIn, seconds, after);
  };
  graph.in(1);
  other(2);
  other(2);
  const Event computed = graph.compute(5.5);
  graph.in(1);
  graph.in(1, {computed});
  graph.in(1);
  other(2);
  const PaperTrace paper = graph.paper();
  const Timeline timeline(paper);
  // Two loads, two of the other lane's although the third load may begin at 5.5, the other's last;
  // a lane whose wait has not passed gives the link away.
  check_ends(timeline, {1, 4, 6, 5.5, 2, 9, 10, 8});
  CHECK(near(timeline.run(5).begin_s, 8));
  const Timeline::CriticalPath path = timeline.critical_path(6, 0);
  CHECK(near(spent_s(path, Lane::kWeightsIn), 4));
  CHECK(near(spent_s(path, Lane::kActivationsIn), 6));
}

TEST_CASE("a lane that had the link in last is not first on the device") {
  Graph graph;
  const Event gate = graph.host(1);
  graph.add(Lane::kActivationsIn, CostKind::kLinkIn, 0.5);
  graph.add(Lane::kOut, CostKind::kMemory, 0.5);
  graph.compute(1, {gate});
  graph.add(Lane::kActivationsIn, CostKind::kMemory, 1, {gate});
  const PaperTrace paper = graph.paper();
  const Timeline timeline(paper);
  CHECK(near(timeline.run(3).end_s, 2));
  CHECK(near(timeline.run(4).end_s, 3));
}

TEST_CASE("attention on the host leaves more to copies in than updates do") {
  Rates rates = second_rates();
  rates.host_attention_flops = 1;
  rates.link_in_under_host = 0.5;
  rates.link_in_under_attention = 0.8;
  for (const bool attends : {false, true}) {
    Graph graph;
    graph.in(1);
    graph.host(3);
    if (attends) graph.records().back().what.cost.flops = 1;  // its bytes are still the bound
    const PaperTrace paper = graph.paper(rates);
    check_ends(Timeline(paper), {attends ? 1.25 : 2.0, 3});
  }
}

TEST_CASE("an update with codes takes the longer of its bytes and its parameters") {
  Rates rates = second_rates();
  rates.coded_gparams = 2;
  Graph graph;
  graph.host(1);
  CHECK(near(graph.end_s(rates), 1));
  graph.records()[0].what.cost.coded = 6'000'000'000;
  CHECK(near(graph.end_s(rates), 3));
  graph.records()[0].what.cost.coded = 1'000'000'000;
  CHECK(near(graph.end_s(rates), 1));
  graph.records()[0].lane = Lane::kCompute;  // a device is not held up by them
  graph.records()[0].what.cost.coded = 6'000'000'000;
  CHECK(near(graph.end_s(rates), 1));
}

TEST_CASE("host memory and copies take from each other") {
  Rates rates = second_rates();
  rates.host_under_copies = 0.5;
  rates.link_in_under_host = 0.8;
  Graph one_way;
  one_way.in(1);
  one_way.host(2);
  // The copy takes 1 / 0.8 s, in which the host has 3 / 4 of its speed.
  CHECK(near(one_way.end_s(rates), 1.25 + (2 - 1.25 * 0.75)));
  Graph both_ways = one_way;
  both_ways.out(1);
  // Out ends first, after 1 s at half speed of the host; in has 0.2 s of work left.
  CHECK(near(both_ways.end_s(rates), 1 + 0.25 + (2 - 0.5 - 0.25 * 0.75)));
}

TEST_CASE("a collective alone takes its start, and the bytes that each rank sends by its rate") {
  Graph graph;
  graph.collective("all_gather", 4);
  CHECK(near(graph.end_s(collective_rates()), 0.25 + 3));
  graph.collective("all_reduce", 4);
  CHECK(near(graph.end_s(collective_rates()), 3.25 + 0.25 + 6));
  CHECK_THROWS_AS(graph.end_s(), std::invalid_argument);
}

TEST_CASE("a collective and kernels slow each other while both run") {
  Rates rates = collective_rates();
  rates.collectives[0].own_share = 0.5;
  rates.collectives[0].kernel_share = 0.8;
  Graph graph;
  graph.compute(8);
  graph.collective("all_gather", 4);
  const PaperTrace paper = graph.paper(rates);
  const Timeline timeline(paper);
  // The gather takes twice its 3.25 s, in which 5.2 s of the product's 8 are done.
  check_ends(timeline, {6.5 + (8 - 0.8 * 6.5), 6.5});
  Graph exposed;
  exposed.compute(1, {exposed.collective("all_gather", 4)});
  CHECK(near(exposed.end_s(rates), 3.25 + 1));
}

TEST_CASE("what each collective that begins costs kernels does not go by its bytes") {
  Rates rates = collective_rates();
  rates.collectives[0].kernel_share = 0.9;
  rates.collectives[0].kernel_loss_us = 0.25e6;
  Graph graph;
  graph.compute(8);
  graph.collective("all_gather", 4);
  CHECK(near(graph.end_s(rates), 8 + 0.1 * 3.25 + 0.25));
  graph.collective("all_gather", 1);  // of 1 s
  CHECK(near(graph.end_s(rates), 8 + 0.1 * 3.25 + 0.25 + 0.1 * 1 + 0.25));
  // A small one takes no more than half of the kernels' time.
  rates.collectives[0].kernel_loss_us = 5e6;
  CHECK(near(graph.end_s(rates), 8 + 0.5 * 4.25));
}

TEST_CASE("copies and a collective share the link that both want") {
  Rates rates = collective_rates();
  rates.collectives[0].link_use = 1;
  rates.collectives[0].start_us = 0;
  rates.link_out_share = 0.5;
  Graph graph;
  graph.in(1);
  graph.collective("all_gather", 4);
  // Half of the link each until the copy is there, after 2 s; 2 of the 3 s remain.
  CHECK(near(graph.end_s(rates), 2 + 2));
  rates.collectives[0].link_use = 0.25;
  CHECK(near(graph.end_s(rates), 1.25 + 2));
  Graph out;
  out.out(1);
  CHECK(near(out.end_s(rates), 2));
}

TEST_CASE("host tasks of one thread take nothing from copies") {
  Rates rates = second_rates();
  rates.host_under_copies = 0.5;
  rates.link_in_under_host = 0.5;
  Graph graph;
  graph.in(1);
  graph.host(1);
  graph.records().back().what.kind = SubmissionKind::kHostTask;
  CHECK(near(graph.end_s(rates), 1));
}

TEST_CASE("what the save lane writes takes its disk's time, and nothing from others") {
  Rates rates = second_rates();
  rates.disk_gbs = 0.5;
  rates.link_in_under_host = rates.link_out_under_host = rates.host_under_copies = 0.5;
  Graph graph;
  const Event updated = graph.host(1);
  graph.add(Lane::kSave, CostKind::kMemory, 2, {updated});  // 2 GB
  graph.host(3);
  const PaperTrace paper = graph.paper(rates);
  check_ends(Timeline(paper), {1, 1 + 2 / 0.5, 4});
  Graph copies;
  copies.add(Lane::kSave, CostKind::kMemory, 2);
  copies.in(3);
  const PaperTrace beside = copies.paper(rates);
  check_ends(Timeline(beside), {2 / 0.5, 3});
}

TEST_CASE("host tasks of all threads are host memory's work, and rare ones take nothing") {
  Graph graph;
  for (const CostKind kind : {CostKind::kPooled, CostKind::kRare}) {
    graph.add(Lane::kHost, kind, 1);
    graph.records().back().what.kind = SubmissionKind::kHostTask;
  }
  Rates rates = second_rates();
  rates.task_gbs = 1e-3;
  CHECK(near(graph.end_s(rates), 1));
  rates.host_gbs = 0.5;
  CHECK(near(graph.end_s(rates), 2));
}

TEST_CASE("the device runs one kernel at a time, lanes in turns") {
  Graph graph;
  graph.compute(2);
  graph.compute(2);
  graph.add(Lane::kOut, CostKind::kMemory, 1);
  graph.add(Lane::kOut, CostKind::kMemory, 1);
  graph.compute(2);
  const PaperTrace paper = graph.paper();
  const Timeline timeline(paper);
  check_ends(timeline, {2, 5, 3, 6, 8});
  // The lane was held up from when its kernel could begin; the chain is that of the device.
  CHECK(near(timeline.run(2).begin_s, 0));
  const Timeline::CriticalPath path = timeline.critical_path(4, 0);
  CHECK(near(spent_s(path, Lane::kCompute), 6));
  CHECK(near(spent_s(path, Lane::kOut), 2));
}

TEST_CASE("the last tiles of a product leave room to kernels of other lanes") {
  Rates rates = second_rates();
  rates.multiprocessors = 4;
  constexpr std::int64_t kSummed = 1 << 22;
  constexpr double kIdleS = 0.5 * 2 * 128 * 256 * kSummed / (1e12 / 4);  // half of a tile's time
  const auto ends = [&](std::int64_t tiles, double ready_s) {
    Graph graph;
    graph.compute(4);
    graph.records().back().what.cost.extents = {tiles * 128, 256, kSummed};
    const Event ready = graph.in(ready_s);
    graph.add(Lane::kOut, CostKind::kMemory, 0.25, {ready});
    const PaperTrace paper = graph.paper(rates);
    const Timeline timeline(paper);
    return std::pair(timeline.run(0).end_s, timeline.run(2).end_s);
  };
  for (const double early_s : {0.125, 2.0}) {
    const auto [product_s, kernel_s] = ends(5, early_s);
    CHECK(near(kernel_s, 4 - kIdleS + 0.25));
    CHECK(near(product_s, 4.25));
  }
  CHECK(near(ends(5, 3.75).second, 4));  // while they run it begins at once
  CHECK(near(ends(8, 2).second, 4.25));  // tiles that come out even leave none idle
  rates.multiprocessors = 0;             // nobody says
  CHECK(near(ends(5, 2).second, 4.25));
}

TEST_CASE("copies slow kernels") {
  Rates rates = second_rates();
  rates.device_under_copies = 0.8;
  Graph copies;
  copies.compute(2);
  copies.in(1);
  CHECK(near(copies.end_s(rates), 1 + (2 - 0.9)));
}

TEST_CASE("every submission takes its start, and the submitting thread its time") {
  Rates rates = second_rates();
  rates.kernel_us = 1e5;
  rates.copy_us = 2e5;
  rates.task_us = 3e5;
  Graph graph;
  const Event computed = graph.compute(1);
  const Event gone = graph.out(1, {computed});
  graph.host(1, {gone});
  CHECK(near(graph.end_s(rates), 3.6));
  rates.submit_us = 4e6;
  const PaperTrace paper = graph.paper(rates);
  const Timeline timeline(paper);
  CHECK(near(timeline.end_s(), 3 * 4 + 1.3));
  CHECK(near(timeline.critical_path(2, 0).submit_s, 12));
}

TEST_CASE("the submitting thread waits for what it joined") {
  Rates rates = second_rates();
  rates.submit_us = 1e5;
  Graph graph;
  const Event first = graph.compute(2);
  graph.compute(1);
  graph.records().back().joined = {first};
  TraceRecord access;
  access.by_submitter = true;
  graph.records().insert(graph.records().begin() + 1, access);
  const PaperTrace paper = graph.paper(rates);
  const Timeline timeline(paper);
  CHECK(near(timeline.run(1).end_s, 0.2));
  CHECK(near(timeline.end_s(), 0.1 + 2 + 0.1 + 1));
  CHECK(near(timeline.critical_path(2, 0).submit_s, 0.2));
}

TEST_CASE("a kernel that reads memory of the host takes the link's rate for what it reads") {
  std::array<std::byte, 2> memory{};
  const auto end_s = [&](Lane lane, std::byte* from, std::size_t bytes) {
    PaperTrace trace([] {
      Rates r = second_rates();
      r.device_gbs = 100;
      return r;
    }());
    trace.arena("pinned", Space::kPinned, {memory.data(), 1});
    trace.arena("device", Space::kDevice, {memory.data() + 1, 1});
    TraceRecord record;
    record.lane = lane;
    record.ticket = 1;
    record.what.name = "cast";
    record.what.kind = SubmissionKind::kKernel;
    record.what.accesses.reads = {{from, bytes}};
    record.what.cost.bytes = 6'000'000'000;  // half of it is written
    trace.add(record);
    return Timeline(trace).end_s();
  };
  constexpr std::size_t kTable = 50'000'000'000;  // of which it reads some rows
  CHECK(near(end_s(Lane::kCompute, memory.data(), kTable), 3));
  CHECK(near(end_s(Lane::kCompute, memory.data(), 1'000'000'000), 1));
  CHECK(near(end_s(Lane::kCompute, memory.data(), 8), 0.06));
  CHECK(near(end_s(Lane::kCompute, memory.data() + 1, kTable), 0.06));
  CHECK(near(end_s(Lane::kHost, memory.data(), kTable), 6));
}

TEST_CASE("operators that move bytes have their own share of the rate") {
  Rates rates = second_rates();
  rates.operators = {{.name = "work", .device = 0.5, .host = 0.25}};
  Graph device;
  device.add(Lane::kCompute, CostKind::kMemory, 1);
  CHECK(near(device.end_s(rates), 2));
  Graph host;
  host.host(1);
  CHECK(near(host.end_s(rates), 4));
  device.records()[0].what.name = "other work";
  CHECK(near(device.end_s(rates), 1));
}

TEST_CASE("a product takes the longer of its FLOPs and its bytes") {
  Graph graph;
  graph.compute(1);
  graph.records()[0].what.cost.bytes = 3'000'000'000;
  CHECK(near(graph.end_s(), 3));
  graph.records()[0].what.cost.bytes = 500'000'000;
  CHECK(near(graph.end_s(), 1));
}

TEST_CASE("a product whose time goes to its bytes takes longer to start, another one does not") {
  Rates rates = second_rates();
  rates.thin_product_us = 0.5e6;
  Graph thin;
  thin.compute(1);
  thin.records().back().what.cost.bytes = 2'000'000'000;
  CHECK(Timeline(thin.paper(rates)).end_s() == Approx(2.5));
  Graph thick;
  thick.compute(3);
  thick.records().back().what.cost.bytes = 2'000'000'000;
  CHECK(Timeline(thick.paper(rates)).end_s() == Approx(3));
}

TEST_CASE("attention is slower for short rows and narrow heads") {
  Rates rates = second_rates();
  rates.attention_forward_length = 1024;
  rates.attention_head_share = 0.5;
  const auto seconds = [&](CostKind kind, std::int64_t length, std::int64_t head_dim) {
    Graph graph;
    graph.compute(0);
    graph.records()[0].what.cost = {
        .kind = kind, .flops = 1e12, .extents = {4096, length, head_dim}};
    return graph.end_s(rates);
  };
  CHECK(near(seconds(CostKind::kAttentionForward, 1024, 128), 2));
  CHECK(near(seconds(CostKind::kAttentionForward, 3072, 128), 4.0 / 3));
  CHECK(near(seconds(CostKind::kAttentionForward, 3072, 64), 8.0 / 3));
  CHECK(near(seconds(CostKind::kAttentionBackward, 1024, 128), 1));
}

TEST_CASE("attention's backward is faster where rows are so long that it has the clock to itself") {
  Rates rates = second_rates();
  rates.attention_backward_gain = 0.25;
  const auto seconds = [&](CostKind kind, std::int64_t length) {
    Graph graph;
    graph.compute(0);
    graph.records()[0].what.cost = {.kind = kind, .flops = 1e12, .extents = {length, length, 128}};
    return graph.end_s(rates);
  };
  CHECK(near(seconds(CostKind::kAttentionBackward, 1024), 1));
  CHECK(near(seconds(CostKind::kAttentionBackward, 4096), 1));
  CHECK(near(seconds(CostKind::kAttentionBackward, 4096 + 26000), 1 / 1.125));
  CHECK(near(seconds(CostKind::kAttentionBackward, 4096 + 4 * 26000), 1 / 1.2));
  CHECK(near(seconds(CostKind::kAttentionForward, 4096 + 4 * 26000), 1));
}

TEST_CASE("work of a cell that stands for several lets other kernels in between") {
  Graph graph;
  graph.compute(1);
  graph.records().back().what.tag.cell = 0;
  const Event filled = graph.in(0.5);
  graph.add(Lane::kOut, CostKind::kProduct, 0.25, {filled});
  constexpr double kCells = 4;
  PaperTrace paper(second_rates(), {.cell = kCells});
  for (const TraceRecord& record : graph.records()) paper.add(record);
  const Timeline timeline(paper);
  CHECK(near(timeline.run(2).end_s, 1.25));  // after the first of four
  CHECK(near(timeline.run(0).end_s, 4.25));
  CHECK(near(graph.end_s(), 1.25));  // a cell that stands for itself is not interrupted
}

TEST_CASE("what was submitted before the first record is over") {
  Graph graph;
  const Event before = graph.in(5);
  const Event earlier = graph.compute(5);
  graph.compute(1, {before, earlier});
  graph.records().erase(graph.records().begin(), graph.records().end() - 1);
  CHECK(near(graph.end_s(), 1));
}

TEST_CASE("a graph with holes, cycles or work without a rate is refused") {
  Graph hole;
  hole.compute(1);
  hole.compute(1);
  hole.compute(1);
  hole.records().erase(hole.records().begin() + 1);
  CHECK_THROWS_AS(hole.end_s(), std::invalid_argument);
  Graph later;
  later.compute(1, {Event{Lane::kOut, 2}});
  later.out(1);
  CHECK_THROWS_AS(later.end_s(), std::invalid_argument);
  Graph unknown;
  unknown.compute(1);
  CHECK_THROWS_AS(unknown.end_s(Rates{}), std::invalid_argument);
}
