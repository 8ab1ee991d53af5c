// Tests what every stream does before its backend does anything: tickets, waits that are left out,
// checks of copies and failures.

#include "strata/device/stream.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "strata/device/arena.h"
#include "strata/device/device.h"
#include "support/catch.h"

using namespace strata;

namespace {

constexpr auto kEmptyTask = [] {};

Event submit_empty(Device& device, Lane lane) {
  device.stream(lane).host_task("task", {}, {}, kEmptyTask);
  return device.stream(lane).record();
}

/// A lane that only counts tickets, like a device lane without a host thread.
class BareStream final : public Stream {
 public:
  using Stream::Stream;

 protected:
  void do_record(std::uint64_t) override {}
  void do_wait(Event) override {}
  void do_copy(void*, const void*, std::size_t) override {}
  void do_set(void*, std::uint8_t, std::size_t) override {}
  void do_begin(std::uint64_t) override {}
  void do_end(std::uint64_t) override {}
};

}  // namespace

TEST_CASE("tickets count a lane's submissions") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  CHECK(device->stream(Lane::kOut).record().ticket == 0);
  CHECK(submit_empty(*device, Lane::kOut).ticket == 1);
  CHECK(submit_empty(*device, Lane::kOut).ticket == 2);
  CHECK(device->stream(Lane::kOut).record().ticket == 2);
  CHECK(device->stream(Lane::kOut).record().lane == Lane::kOut);
  CHECK(submit_empty(*device, Lane::kHost).ticket == 1);
}

TEST_CASE("waiting for work that was not submitted is a logic error") {
  const auto device = make_cpu_device({});
  const Event event = submit_empty(*device, Lane::kOut);
  const Event future{event.lane, event.ticket + 1};
  CHECK_THROWS_AS(device->wait(future), std::logic_error);
  CHECK_THROWS_AS(device->stream(Lane::kCompute).wait(future, WaitFor::kFilled), std::logic_error);
  CHECK_THROWS_AS(device->stream(Lane::kOut).wait(future, WaitFor::kFilled), std::logic_error);
  CHECK_THROWS_WITH(device->wait(future), ContainsSubstring("ticket 2 of the out lane"));
}

TEST_CASE("waits that order nothing new are left out") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.trace = &trace});
  const Event first = submit_empty(*device, Lane::kWeightsIn);
  const Event second = submit_empty(*device, Lane::kWeightsIn);
  const Event own = submit_empty(*device, Lane::kCompute);
  Stream& compute = device->stream(Lane::kCompute);
  compute.wait(own, WaitFor::kReuse);
  compute.wait({Lane::kHost, 0}, WaitFor::kUpdated);
  compute.wait(second, WaitFor::kFilled);
  compute.wait(second, WaitFor::kFilled);
  compute.wait(first, WaitFor::kReuse);
  submit_empty(*device, Lane::kCompute);
  compute.wait(second, WaitFor::kFilled);
  submit_empty(*device, Lane::kCompute);
  device->synchronize();

  REQUIRE(trace.records().size() == 5);
  const std::vector<Wait>& waits = trace.records()[3].waits;
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].event.lane == Lane::kWeightsIn);
  CHECK(waits[0].event.ticket == 2);
  CHECK(waits[0].why == WaitFor::kFilled);
  CHECK(trace.records()[4].waits.empty());
}

TEST_CASE("a kind of wait can be left out without hiding other kinds") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.omit_wait = WaitFor::kFilled, .trace = &trace});
  const Event event = submit_empty(*device, Lane::kWeightsIn);
  Stream& compute = device->stream(Lane::kCompute);
  compute.wait(event, WaitFor::kFilled);
  submit_empty(*device, Lane::kCompute);
  compute.wait(event, WaitFor::kUpdated);
  submit_empty(*device, Lane::kCompute);
  device->synchronize();
  CHECK(trace.records()[1].waits.empty());
  REQUIRE(trace.records()[2].waits.size() == 1);
  CHECK(trace.records()[2].waits[0].why == WaitFor::kUpdated);
}

TEST_CASE("copies and sets move bytes between pinned and device memory") {
  const auto device = make_cpu_device({});
  Arena pinned(*device, Space::kPinned, 1024, "pinned");
  Arena on_device(*device, Space::kDevice, 1024, "device");
  std::byte* const from = pinned.allocate("from", 100);
  std::byte* const through = on_device.allocate("through", 100);
  std::byte* const to = pinned.allocate("to", 100);
  for (int i = 0; i < 100; ++i) from[i] = static_cast<std::byte>(i);
  Stream& in = device->stream(Lane::kWeightsIn);
  Stream& out = device->stream(Lane::kOut);
  in.copy(through, from, 100, {});
  in.set(through + 10, 0xab, 5, {});
  out.wait(in.record(), WaitFor::kFilled);
  out.copy(to, through, 100, {});
  device->wait(out.record());
  for (int i = 0; i < 100; ++i) {
    REQUIRE(to[i] == static_cast<std::byte>(i >= 10 && i < 15 ? 0xab : i));
  }
}

TEST_CASE("a copy refuses memory that is not in one arena of device or pinned memory") {
  const auto device = make_cpu_device({});
  Arena pinned(*device, Space::kPinned, 1024, "pinned");
  Arena pageable(*device, Space::kPageable, 1024, "pageable");
  std::byte* const good = pinned.allocate("good", 512);
  std::byte* const bad = pageable.allocate("bad", 512);
  std::vector<std::byte> heap(512);
  Stream& out = device->stream(Lane::kOut);
  CHECK_NOTHROW(out.copy(good + 256, good, 256, {}));
  CHECK_THROWS_AS(out.copy(bad, good, 512, {}), BackendError);
  CHECK_THROWS_AS(out.copy(good, heap.data(), 512, {}), BackendError);
  CHECK_THROWS_AS(out.copy(good, good + 512, 513, {}), BackendError);
  CHECK_THROWS_WITH(out.copy(heap.data(), good, 512, {}),
                    ContainsSubstring("destination of 512 bytes") &&
                        ContainsSubstring("take it from a pinned arena"));
  CHECK(out.record().ticket == 1);
  // Nothing to copy, nothing to refuse.
  CHECK_NOTHROW(out.copy(nullptr, nullptr, 0, {}));
  device->synchronize();
}

TEST_CASE("a submission that fails to enqueue takes no ticket and loses no wait") {
  Recorder trace;
  trace.start();
  const auto device = make_cpu_device({.trace = &trace});
  const Event event = submit_empty(*device, Lane::kHost);
  Stream& compute = device->stream(Lane::kCompute);
  compute.wait(event, WaitFor::kUpdated);
  CHECK_THROWS_AS(compute.submit({.name = "bad"}, {}, [] { throw BackendError("no such kernel"); }),
                  BackendError);
  CHECK(compute.record().ticket == 0);
  CHECK(submit_empty(*device, Lane::kCompute).ticket == 1);
  device->synchronize();
  REQUIRE(trace.records().size() == 2);
  CHECK(trace.records()[1].waits.size() == 1);
}

TEST_CASE("a submission is described before it is enqueued, and only to those who record") {
  Recorder trace;
  const auto device = make_cpu_device({.execution = Execution::kEager, .trace = &trace});
  Stream& host = device->stream(Lane::kHost);
  std::string order;
  const auto submit_one = [&] {
    host.submit(
        {.name = "work", .kind = SubmissionKind::kCollective, .tag = {.phase = "test"}},
        [&] {
          order += "described ";
          return Footprint{.accesses = {}, .cost = {.kind = CostKind::kPooled, .bytes = 3}};
        },
        [&] { order += "enqueued "; });
  };
  submit_one();
  CHECK(order == "enqueued ");
  trace.start();
  submit_one();
  host.submit({.name = "plain"}, {}, kEmptyTask);
  trace.stop();
  CHECK(order == "enqueued described enqueued ");
  REQUIRE(trace.records().size() == 2);
  const Submission& what = trace.records()[0].what;
  CHECK(what.name == "work");
  CHECK(what.kind == SubmissionKind::kCollective);
  CHECK(what.tag.phase == "test");
  CHECK(what.cost.kind == CostKind::kPooled);
  CHECK(what.cost.bytes == 3);
  CHECK(trace.records()[1].what.accesses.reads.empty());
}

TEST_CASE("work enqueued in several pieces is one submission") {
  for (const Execution execution : {Execution::kEager, Execution::kThreads, Execution::kShuffled}) {
    const auto device = make_cpu_device({.execution = execution});
    Stream& compute = device->stream(Lane::kCompute);
    std::string order;
    compute.submit({.name = "pieces"}, {}, [&] {
      for (const char piece : {'a', 'b', 'c'}) compute.enqueue_host([&, piece] { order += piece; });
    });
    compute.submit({.name = "nothing"}, {}, kEmptyTask);
    CHECK(compute.record().ticket == 2);
    device->synchronize();
    CHECK(order == "abc");
  }
}

TEST_CASE("a lane without a host thread refuses host tasks by name") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  BareStream stream(*device, Lane::kWeightsIn);
  CHECK_THROWS_AS(stream.host_task("task", {}, {}, kEmptyTask), BackendError);
  CHECK_THROWS_WITH(stream.host_task("task", {}, {}, kEmptyTask),
                    ContainsSubstring("weights_in lane"));
}

TEST_CASE("synchronize_each finishes every submission before the next, and reports its failure") {
  for (const Execution execution : {Execution::kThreads, Execution::kShuffled}) {
    const auto device = make_cpu_device({.execution = execution, .synchronize_each = true});
    Stream& out = device->stream(Lane::kOut);
    int finished = 0;  // not atomic: the wait orders it
    for (int i = 1; i <= 20; ++i) {
      out.host_task("task", {}, {}, [&] { ++finished; });
      REQUIRE(finished == i);
    }
    CHECK(device->wait_calls() == 0);
    CHECK_THROWS_WITH(out.host_task("task", {}, {}, [] { throw std::runtime_error("here"); }),
                      "here");
  }
}

TEST_CASE("waits and allocations are counted") {
  const auto device = make_cpu_device({});
  CHECK(device->wait_calls() == 0);
  CHECK(device->allocations() == 0);
  const Arena arena(*device, Space::kPinned, 100, "arena");
  CHECK(device->allocations() == 1);
  const Event event = submit_empty(*device, Lane::kOut);
  device->stream(Lane::kHost).wait(event, WaitFor::kArrived);
  CHECK(device->wait_calls() == 0);
  device->wait(event);
  device->wait({Lane::kComm, 0});
  CHECK(device->wait_calls() == 2);
  device->synchronize();
  CHECK(device->wait_calls() == 3);
}

TEST_CASE("lanes, waits and spaces have names") {
  CHECK(name_of(Lane::kActivationsIn) == "activations_in");
  CHECK(name_of(Lane::kHost) == "host");
  CHECK(name_of(Lane::kSave) == "save");
  CHECK(name_of(WaitFor::kGathered) == "gathered");
  CHECK(name_of(WaitFor::kTaken) == "taken");
  CHECK(name_of(Space::kPinned) == "pinned");
}
