// Tests the three ways in which the cpu device executes lanes: all must respect every wait and give
// the numbers of plain loops.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/pipeline.h"
#include "strata/base/random.h"
#include "support/catch.h"
#include "support/limited_child.h"
#include "support/patience.h"

using namespace strata;

namespace {

struct Case {
  const char* name;
  DeviceOptions options;
};

std::vector<Case> executions() {
  return {{"eager", {.execution = Execution::kEager}},
          {"threads", {.execution = Execution::kThreads}},
          {"shuffled 1", {.execution = Execution::kShuffled, .shuffle_seed = 1}},
          {"shuffled 2", {.execution = Execution::kShuffled, .shuffle_seed = 2}}};
}

std::vector<Case> queued_executions() {
  auto cases = executions();
  cases.erase(cases.begin());
  return cases;
}

void submit(Device& device, Lane lane, std::function<void()> task) {
  device.stream(lane).host_task("task", {}, {}, std::move(task));
}

using test::comes_true;

constexpr std::chrono::microseconds kShort{2};

struct Ran {
  std::atomic<int> begin{-1};
  std::atomic<int> end{-1};
};

struct Edge {
  std::size_t before;
  std::size_t after;
};

}  // namespace

TEST_CASE("work starts after everything before it in its lane and after every event waited for") {
  constexpr std::size_t kTasks = 400;
  for (const Case& c : executions()) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      CAPTURE(c.name, seed);
      const auto device = make_cpu_device(c.options);
      std::vector<Ran> ran(kTasks);
      std::vector<Edge> order;
      std::array<std::int64_t, kLaneCount> last_of_lane;
      last_of_lane.fill(-1);
      std::vector<Event> events;
      std::atomic<int> clock{0};
      for (std::size_t i = 0; i < kTasks; ++i) {
        const auto lane = static_cast<Lane>(random_bits(seed, 0, i) % kLaneCount);
        Stream& stream = device->stream(lane);
        for (std::uint64_t w = 0; i > 0 && w < random_bits(seed, 1, i) % 3; ++w) {
          const std::size_t earlier = random_bits(seed, 2 + w, i) % i;
          stream.wait(events[earlier], WaitFor::kFilled);
          order.push_back({earlier, i});
        }
        std::int64_t& last = last_of_lane[static_cast<std::size_t>(lane)];
        if (last >= 0) order.push_back({static_cast<std::size_t>(last), i});
        last = static_cast<std::int64_t>(i);
        submit(*device, lane, [&, i] {
          ran[i].begin = clock++;
          ran[i].end = clock++;
        });
        events.push_back(stream.record());
      }
      device->synchronize();
      for (const Edge& edge : order) {
        REQUIRE(ran[edge.before].end >= 0);
        REQUIRE(ran[edge.before].end < ran[edge.after].begin);
      }
    }
  }
}

TEST_CASE("every execution gives the numbers of plain loops") {
  const std::vector<double> expected = test::pipeline_reference(5);
  for (const Case& c : executions()) {
    for (const bool debug : {false, true}) {
      CAPTURE(c.name, debug);
      DeviceOptions options = c.options;
      options.poison_slots = debug;
      options.synchronize_each = debug;
      const auto device = make_cpu_device(options);
      test::Pipeline pipeline(*device);
      pipeline.submit(5);
      CHECK(pipeline.weights() == expected);
      CHECK(pipeline.saved() == test::pipeline_reference(test::Pipeline::kSavedSteps));
    }
  }
}

TEST_CASE("lanes of the threads execution run at the same time") {
  const auto device = make_cpu_device({.execution = Execution::kThreads});
  // Every lane waits until all others have begun: impossible for fewer threads than lanes.
  std::atomic<int> begun{0};
  std::promise<void> all_begun;
  const std::shared_future<void> signal = all_begun.get_future().share();
  std::atomic<int> met{0};
  for (int lane = 0; lane < kLaneCount; ++lane) {
    submit(*device, static_cast<Lane>(lane), [&] {
      if (++begun == kLaneCount) all_begun.set_value();
      if (comes_true(signal)) ++met;
    });
  }
  device->synchronize();
  CHECK(met == kLaneCount);
}

TEST_CASE("submission goes on while the lanes wait for earlier work") {
  for (const Case& c : queued_executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    std::atomic<bool> in_time{false};
    std::atomic<int> others{0};
    submit(*device, Lane::kHost, [&] { in_time = comes_true(released); });
    const Event held = device->stream(Lane::kHost).record();
    for (int i = 0; i < 100; ++i) {
      device->stream(Lane::kCompute).wait(held, WaitFor::kUpdated);
      submit(*device, Lane::kCompute, [&] { ++others; });
    }
    CHECK(others == 0);
    release.set_value();
    device->synchronize();
    CHECK(in_time);
    CHECK(others == 100);
  }
}

TEST_CASE("submitted work runs even if the submitting thread never waits for it") {
  for (const Case& c : executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    std::promise<void> done;
    for (int i = 0; i < 5; ++i) submit(*device, Lane::kCompute, [] {});
    submit(*device, Lane::kCompute, [&] { done.set_value(); });
    CHECK(comes_true(done.get_future().share()));
  }
}

namespace {

/// The order in which two independent lanes' work ran.
std::string order_of(std::uint64_t seed) {
  // Work that is held back goes when the test waits for it, and not because the system has held the
  // submitting thread up.
  const auto device = make_cpu_device({.execution = Execution::kShuffled, .shuffle_seed = seed},
                                      std::chrono::hours(1));
  std::string order;
  for (int i = 0; i < 20; ++i) {
    submit(*device, Lane::kCompute, [&] { order += 'c'; });
    submit(*device, Lane::kOut, [&] { order += 'o'; });
  }
  device->synchronize();
  return order;
}

}  // namespace

TEST_CASE("a shuffled order depends on the seed alone") {
  std::string submitted;
  for (int i = 0; i < 20; ++i) submitted += "co";
  const std::string first = order_of(1);
  CHECK(first != submitted);
  CHECK(first != order_of(2));
  CHECK(order_of(2) != order_of(3));
  for (int i = 0; i < 10; ++i) CHECK(order_of(1) == first);
}

TEST_CASE("a task that throws fails the device: later work is skipped and nothing hangs") {
  for (const Case& c : executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    std::atomic<int> ran{0};
    submit(*device, Lane::kHost, [&] { ++ran; });
    submit(*device, Lane::kHost, [] { throw std::runtime_error("first failure"); });
    const Event failed = device->stream(Lane::kHost).record();
    for (int lane = 0; lane < kLaneCount; ++lane) {
      device->stream(static_cast<Lane>(lane)).wait(failed, WaitFor::kArrived);
      submit(*device, static_cast<Lane>(lane), [&] {
        ++ran;
        throw std::runtime_error("second failure");
      });
      device->wait(device->stream(static_cast<Lane>(lane)).record());
    }
    CHECK(ran == 1);
    CHECK_THROWS_WITH(device->throw_if_failed(), "first failure");
    CHECK_THROWS_WITH(device->synchronize(), "first failure");
    CHECK_THROWS_WITH(device->synchronize(), "first failure");
  }
}

TEST_CASE("a device without failures throws nothing") {
  for (const Case& c : executions()) {
    const auto device = make_cpu_device(c.options);
    submit(*device, Lane::kOut, [] {});
    device->synchronize();
    CHECK_NOTHROW(device->throw_if_failed());
  }
}

TEST_CASE("tasks of the save lane do not count as work of the host lane") {
  for (const Case& c : executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    // Any time does, as long as a clock can tell it.
    const auto task = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    submit(*device, Lane::kSave, task);
    device->synchronize();
    CHECK(device->host_busy_s() == 0);
    submit(*device, Lane::kHost, task);
    device->synchronize();
    CHECK(device->host_busy_s() > 0);
  }
}

TEST_CASE("a device is destroyed while work is under way: what has not begun is dropped") {
  for (const Case& c : queued_executions()) {
    CAPTURE(c.name);
    const auto token = std::make_shared<int>(0);
    {
      const auto device = make_cpu_device(c.options);
      std::promise<void> release;
      const std::shared_future<void> released = release.get_future().share();
      submit(*device, Lane::kHost, [released, token] { released.wait(); });
      const Event held = device->stream(Lane::kHost).record();
      for (int i = 0; i < 50; ++i) {
        device->stream(Lane::kCompute).wait(held, WaitFor::kUpdated);
        submit(*device, Lane::kCompute, [token] {});
      }
      release.set_value();
    }
    CHECK(token.use_count() == 1);
  }
}

TEST_CASE("a task's captures are gone once its event has passed") {
  for (const Case& c : executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    auto token = std::make_shared<int>(0);
    submit(*device, Lane::kComm, [token] {});
    device->wait(device->stream(Lane::kComm).record());
    CHECK(token.use_count() == 1);
  }
}

TEST_CASE(
    "a device whose lanes cannot all start says which and why, and nobody waits for the rest") {
  for (const Execution execution : {Execution::kThreads, Execution::kShuffled}) {
    // So few that the shuffled execution's one thread is refused too.
    const int threads = execution == Execution::kThreads ? 3 : 0;
    const test::Ended ended =
        test::with_few_threads([&] { (void)make_cpu_device({.execution = execution}); }, threads);
    if (ended.skipped) return;
    CHECK(ended.exit_code == 3);
    CHECK_THAT(ended.text, ContainsSubstring("cannot start the thread"));
    CHECK_THAT(ended.text, ContainsSubstring("ulimit -u"));
  }
}

TEST_CASE("a lane keeps no more submissions in memory than its queue is planned for") {
  for (const Case& c : queued_executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    const auto token = std::make_shared<int>(0);
    long most = 0;
    // The first keeps the lane until the queue is full. Those behind it may take any time: one that
    // is longer than a submission keeps the queue full.
    std::promise<void> full;
    submit(*device, Lane::kOut,
           [token, until_full = full.get_future().share()] { until_full.wait(); });
    for (std::uint64_t i = 1; i < 4 * kMostQueued; ++i) {
      submit(*device, Lane::kOut, [token] { std::this_thread::sleep_for(kShort); });
      most = std::max(most, token.use_count());
      if (i == kMostQueued - 1) full.set_value();
    }
    // This one's own, and that of the piece that runs, are not in the queue.
    CHECK(most <= static_cast<long>(kMostQueued) + 2);
    CHECK(most >= static_cast<long>(kMostQueued));  // they do queue
    device->synchronize();
  }
}

TEST_CASE("full queues of lanes that wait for each other still drain") {
  constexpr std::uint64_t kSubmissions = 8 * kMostQueued;
  for (const Case& c : queued_executions()) {
    CAPTURE(c.name);
    const auto device = make_cpu_device(c.options);
    std::atomic<std::uint64_t> ran{0};
    std::array<Event, kLaneCount> last{};
    for (std::uint64_t i = 0; i < kSubmissions; ++i) {
      // Most go to one lane, and any may wait for what is newest on any other.
      const std::uint64_t bits = random_bits(7, 0, i);
      const auto lane = static_cast<Lane>(bits % 4 == 0 ? (bits >> 8) % kLaneCount : 1);
      Stream& stream = device->stream(lane);
      stream.wait(last[(bits >> 16) % kLaneCount], WaitFor::kFilled);
      submit(*device, lane, [&] { ++ran; });
      last[static_cast<std::size_t>(lane)] = stream.record();
    }
    device->synchronize();
    CHECK(ran == kSubmissions);
  }
}
