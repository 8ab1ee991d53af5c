// Tests that a device says, to any thread, what its lanes are at.

#include <future>
#include <memory>
#include <string>

#include "device/cpu/cpu_device.h"
#include "strata/device/lane_state.h"
#include "support/catch.h"

namespace strata {
namespace {

using Doing = LaneState::Doing;

/// A task of this name and unit that runs until `go` is ready.
void submit_held(Device& device, Lane lane, const char* name, int unit,
                 std::shared_future<void> go) {
  device.stream(lane).host_task(name, {}, {.phase = "forward", .unit = unit},
                                [go = std::move(go)] { go.wait(); });
}

/// Looks until a lane does this.
LaneState wait_until(const Device& device, Lane lane, Doing doing) {
  LaneState state = device.lane_state(lane);
  while (state.doing != doing) state = device.lane_state(lane);
  return state;
}

}  // namespace

TEST_CASE("a lane says what it runs, and one that waits for it says for what") {
  const std::unique_ptr<Device> device = make_cpu_device({.execution = Execution::kThreads});
  CHECK(device->lane_state(Lane::kOut).doing == Doing::kNothing);
  std::promise<void> go;
  submit_held(*device, Lane::kCompute, "matmul", 3, go.get_future().share());
  const Event computed = device->stream(Lane::kCompute).record();
  device->stream(Lane::kOut).wait(computed, WaitFor::kFilled);
  device->stream(Lane::kOut).host_task("offload", {}, {.unit = 3}, [] {});

  const LaneState runs = wait_until(*device, Lane::kCompute, Doing::kRuns);
  CHECK(text_of(Lane::kCompute, runs) == "the compute lane runs \"matmul\" (forward unit=3)");
  const LaneState waits = wait_until(*device, Lane::kOut, Doing::kWaits);
  REQUIRE(waits.waits_for);
  CHECK(waits.waits_for->lane == Lane::kCompute);
  CHECK(waits.waits_for->ticket == computed.ticket);
  CHECK(text_of(Lane::kOut, waits) ==
        "the out lane waits to run \"offload\" (unit=3) after compute@1");

  go.set_value();
  device->synchronize();
  for (const Lane lane : {Lane::kCompute, Lane::kOut}) {
    const LaneState done = device->lane_state(lane);
    CHECK(done.doing == Doing::kNothing);
    CHECK(text_of(lane, done) == "the " + std::string(name_of(lane)) + " lane has nothing to do");
  }
}

TEST_CASE("a lane is seen to move from one submission to the next, also when their names agree") {
  const std::unique_ptr<Device> device = make_cpu_device({.execution = Execution::kThreads});
  std::promise<void> first, second;
  submit_held(*device, Lane::kHost, "sum", 1, first.get_future().share());
  submit_held(*device, Lane::kHost, "sum", 1, second.get_future().share());
  const LaneState before = wait_until(*device, Lane::kHost, Doing::kRuns);
  CHECK(before.same_as(device->lane_state(Lane::kHost)));
  first.set_value();
  LaneState after = before;
  while (after.ticket == before.ticket) after = device->lane_state(Lane::kHost);
  CHECK(!after.same_as(before));
  second.set_value();
}

TEST_CASE("the lanes of the eager execution say what runs inside the submitting call") {
  const std::unique_ptr<Device> device = make_cpu_device({.execution = Execution::kEager});
  LaneState within;
  device->stream(Lane::kSave).host_task("write", {}, {}, [&] {
    within = device->lane_state(Lane::kSave);
  });
  CHECK(text_of(Lane::kSave, within) == "the save lane runs \"write\"");
  CHECK(device->lane_state(Lane::kSave).doing == Doing::kNothing);
}

}  // namespace strata
