// What the planner decides to leave on the device of the training state and of gradient sums.
// Budgets are made of setups that name the answer, so that no size is written down.

#include <cstddef>
#include <string>

#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/setup.h"
#include "support/catch.h"
#include "support/tiny_config.h"

namespace {

using namespace strata;

RunConfig auto_config() {
  RunConfig config = test::tiny_config();
  config.schedule.resident_units = std::nullopt;
  config.schedule.gradient_sums = GradientSums::kAuto;
  return config;
}

RunConfig with_units(std::int64_t units) {
  RunConfig config = auto_config();
  config.schedule.resident_units = units;
  config.schedule.activations = KeepLevel::kFull;
  return config;
}

constexpr int kUnits = 5;

}  // namespace

TEST_CASE("state moves between host and device unit by unit, no byte of it twice") {
  const auto state_bytes = [](const Setup& s, Space space) {
    std::size_t bytes = 0;
    for (const MemoryPlan::Entry& entry : s.plan.entries()) {
      if (entry.space == space && entry.name.starts_with("state.")) bytes += entry.bytes;
    }
    return bytes;
  };
  const Setup none = make_setup(with_units(0), 0, 1, {});
  const std::size_t all = state_bytes(none, Space::kPinned) + state_bytes(none, Space::kPageable);
  CHECK(state_bytes(none, Space::kDevice) == 0);
  for (int units = 1; units <= kUnits; ++units) {
    const Setup s = make_setup(with_units(units), 0, 1, {});
    const std::size_t host = state_bytes(s, Space::kPinned) + state_bytes(s, Space::kPageable);
    CHECK(state_bytes(s, Space::kDevice) > 0);
    CHECK(state_bytes(s, Space::kDevice) + host == all);
    CHECK((host == 0) == (units == kUnits));
  }
}

TEST_CASE("what the host cannot hold stays on the device, and no unit more") {
  for (int units = 0; units <= kUnits; ++units) {
    RunConfig some = with_units(units);
    const std::size_t host = make_setup(some, 0, 1, {}).host_bytes();
    some.schedule.activations = KeepLevel::kSelective;  // no room for all that cells may keep
    const std::size_t device = make_setup(some, 0, 1, {}).device_bytes();
    const Setup s = make_setup(auto_config(), 0, 1, {.device_limit = device, .host_limit = host});
    CHECK(s.choices.resident_units == units);
    CHECK(s.host_bytes() == host);
    CHECK(s.device_bytes() <= device);
  }
}

TEST_CASE("no unit stays on the device by itself where muon updates layers") {
  RunConfig config = auto_config();
  const Budget budget{.device_limit = kGiB};
  CHECK(make_setup(config, 0, 1, budget).choices.resident_units == kUnits);
  config.optimizer.kind = OptimizerKind::kMuon;
  CHECK(make_setup(config, 0, 1, budget).choices.resident_units == 0);
}

TEST_CASE("no more units stay on the device because boundaries go to the host for them") {
  // Boundaries are larger than a unit: where one unit more makes them leave, the host holds more.
  RunConfig config = auto_config();
  config.schedule.sub_batches = 24;
  const auto with = [&](std::int64_t units) {
    RunConfig named = config;
    named.schedule.resident_units = units;
    named.schedule.activations = KeepLevel::kRecompute;
    return named;
  };
  for (int units = 1; units < kUnits; ++units) {
    INFO(units << " units");
    const Setup exact = make_setup(with(units), 0, 1, {});
    REQUIRE(exact.activation_slots == exact.activations.keys());
    const Budget budget{.device_limit = exact.device_bytes(), .host_limit = exact.host_bytes()};
    const PlannedRank planned{.budget = budget, .device = ""};
    const RunConfig more = with(units + 1);
    CHECK(plan_setup(more, choices_by_rule(more), planned).host_bytes() > exact.host_bytes());
    const Setup s = make_setup(config, 0, 1, budget);
    CHECK(s.choices.resident_units == units);
    CHECK(s.host_bytes() == exact.host_bytes());
  }
}

TEST_CASE("an 8B within 22 GiB of a GPU and 60 GiB of a host is planned") {
  const RunConfig config = test::config_file(
      "llama3-8b.json",
      {"model.max_position_embeddings=4096", "data.sequence_length=4096", "schedule.rows=1",
       "schedule.sub_batches=4", "optimizer.gradient_ring=3", "optimizer.grad_clip=null",
       "optimizer.timing=on_arrival", "optimizer.moment_dtype=bf16", "memory.device_limit=22GiB",
       "memory.host_limit=60GiB"});
  const Budget budget{.device_limit = config.memory.device_limit->bytes,
                      .device_overhead = estimated_device_overhead(BackendChoice::kCuda),
                      .host_limit = config.memory.host_limit->bytes,
                      .host_overhead = estimated_host_overhead(BackendChoice::kCuda)};
  // What is saved at the end takes a buffer as large as the largest unit on the device.
  CHECK(make_setup(config, 0, 1, budget).choices.resident_units == 3);
  RunConfig nothing_saved = config;
  nothing_saved.checkpoint = CheckpointSection::none();
  CHECK(make_setup(nothing_saved, 0, 1, budget).choices.resident_units == 1);
}

TEST_CASE("a refusal says which units are on the device because the host has no room for them") {
  const auto text_of = [](const RunConfig& config, const Budget& budget) -> std::string {
    try {
      (void)make_setup(config, 0, 1, budget);
    } catch (const OutOfMemory& e) {
      return e.what();
    }
    return "fits";
  };
  const std::string reason = "units on the device for whose state the host has no room";
  // One unit of so small a model leaves the host no more: it takes places of its own to arrive.
  for (int units = 2; units <= kUnits; ++units) {
    INFO(units << " units");
    RunConfig named = auto_config();
    named.schedule.resident_units = units;
    // The least that the device needs with so many units, and what is then on the host.
    const PlannedRank tight{.budget = {.device_limit = 1}, .device = ""};
    const Setup least = plan_setup(named, choices_by_rule(named), tight);
    const Budget budget{.device_limit = least.device_bytes() - 1,
                        .host_limit = least.host_bytes(),
                        .host_limit_origin = "the origin of the limit"};
    const std::string text = text_of(auto_config(), budget);
    CHECK_THAT(text,
               ContainsSubstring(" on the host: ") &&
                   ContainsSubstring("; the limit is " + format_bytes(least.host_bytes()) +
                                     " (the origin of the limit). With " + std::to_string(units) +
                                     " " + reason + ", the run needs " +
                                     format_bytes(least.device_bytes()) + " on the device"));
    CHECK_THAT(text_of(named, budget), ContainsSubstring("on the device"));
    CHECK_THAT(text_of(named, budget), !ContainsSubstring(reason));  // the user put them there
    Budget roomy = budget;
    roomy.device_limit = least.device_bytes();
    CHECK(text_of(auto_config(), roomy) == "fits");
    roomy = {.device_limit = 1, .host_limit = std::size_t{1} << 40};
    CHECK_THAT(text_of(auto_config(), roomy), !ContainsSubstring(reason));
    roomy.host_limit.reset();
    CHECK_THAT(text_of(auto_config(), roomy), !ContainsSubstring(reason));
  }
}

TEST_CASE("state goes to the device when all else is there") {
  const Setup roomy = make_setup(auto_config(), 0, 1, {.device_limit = std::size_t{1} << 30});
  CHECK(roomy.choices.resident_units == kUnits);
  CHECK(roomy.state_text() == "f64 moments, f64 gradients, 5 of 5 units resident");
  const std::size_t some = make_setup(with_units(2), 0, 1, {}).device_bytes();
  const Setup s = make_setup(auto_config(), 0, 1, {.device_limit = some});
  CHECK(s.choices.resident_units == 2);
  CHECK(s.device_bytes() <= some);
  const Setup less = make_setup(auto_config(), 0, 1, {.device_limit = some - 1});
  CHECK(less.choices.resident_units == 1);
}

TEST_CASE("a cpu run leaves state where it is, whatever its limits") {
  const Setup s = make_setup(auto_config(), 0, 1,
                             {.device_limit = std::size_t{1} << 30,
                              .host_limit = std::size_t{1} << 31,
                              .device_is_host = true});
  CHECK(s.choices.resident_units == 0);
}

TEST_CASE("gradients of passes are added on the device as far as there is room") {
  RunConfig config = with_units(0);
  config.schedule.passes = 2;
  config.schedule.gradient_sums = GradientSums::kHost;
  const Setup host = make_setup(config, 0, 1, {});
  config.schedule.gradient_sums = GradientSums::kAuto;
  const Setup unknown = make_setup(config, 0, 1, {});
  CHECK(unknown.device_bytes() == host.device_bytes());
  const Setup roomy = make_setup(config, 0, 1, {.device_limit = std::size_t{1} << 30});
  CHECK(roomy.choices.device_sums == kUnits);
  CHECK_THAT(roomy.state_text(),
             ContainsSubstring("0 of 5 units resident, 2 passes, sums of 5 units on the device"));
  const Setup part = make_setup(config, 0, 1, {.device_limit = roomy.device_bytes() - 1});
  CHECK(part.choices.device_sums < kUnits);
  CHECK(part.choices.device_sums > 0);
  CHECK(part.device_bytes() < roomy.device_bytes());
}

TEST_CASE("more resident units than a model has are refused") {
  RunConfig config = with_units(kUnits + 1);
  try {
    config.validate("here");
    FAIL("accepted");
  } catch (const ConfigError& e) {
    CHECK_THAT(std::string(e.what()), ContainsSubstring("schedule.resident_units"));
  }
}
