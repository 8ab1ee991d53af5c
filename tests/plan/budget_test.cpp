// Which limits follow from a config and from machines that are made up here. What a user is told
// who does not stay within them is read from the errors and warnings of setups.

#include "strata/plan/budget.h"

#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/setup.h"
#include "support/catch.h"
#include "support/tiny_run.h"

namespace {

using namespace strata;

MachineMemory gpu_machine() {
  MachineMemory m;
  m.device = {.backend = "cuda",
              .name = "a GPU",
              .memory_bytes = 80 * kGiB,
              .free_bytes = 40 * kGiB,
              .peak_bf16_tflops = 0};
  m.device_in_use = kGiB;
  m.resident = kGiB;
  return m;
}

MachineMemory limited_machine(std::size_t free_bytes) {
  MachineMemory m;
  m.device.backend = "cpu";
  m.host.group = GroupMemory{"/groups/job", 2 * free_bytes, free_bytes};
  m.resident = 10 * kKiB;
  return m;
}

MemorySection limits(std::optional<std::size_t> device, std::optional<std::size_t> host) {
  MemorySection section;
  if (device) section.device_limit = ByteSize{*device};
  if (host) section.host_limit = ByteSize{*host};
  return section;
}

std::string complaint(const RunConfig& config, const Budget& budget) {
  try {
    (void)make_setup(config, 0, 1, budget);
  } catch (const OutOfMemory& e) {
    CHECK(e.exit_code() == 3);
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("without a device limit a run takes what is free, not what others hold") {
  const Budget budget = make_budget({}, gpu_machine());
  REQUIRE(budget.device_limit.has_value());
  CHECK(*budget.device_limit > kGiB + 38 * kGiB);
  CHECK(*budget.device_limit < kGiB + 39 * kGiB);
  CHECK(budget.device_overhead == kGiB);
  CHECK_THAT(budget.device_limit_origin, ContainsSubstring("memory.device_limit is null"));
}

TEST_CASE("a device limit is lowered to what is free") {
  const Budget whole = make_budget(limits(24 * kGiB, {}), gpu_machine());
  CHECK(whole.device_limit == 24 * kGiB);
  CHECK(whole.device_limit_origin == "memory.device_limit");
  const Budget lowered = make_budget(limits(60 * kGiB, {}), gpu_machine());
  CHECK(lowered.device_limit == make_budget({}, gpu_machine()).device_limit);
  CHECK_THAT(lowered.device_limit_origin, ContainsSubstring("60 GiB"));
  CHECK_THAT(lowered.device_limit_origin, ContainsSubstring("40 GiB are free"));
}

TEST_CASE("without a host limit what the control group leaves is one") {
  const Budget budget = make_budget({}, limited_machine(30 * kKiB));
  CHECK(budget.host_limit == 40 * kKiB);  // what the process already holds is part of its plan
  const std::string text = complaint(test::tiny_config(), budget);
  for (const char* part : {"memory.host_limit is null", "/groups/job", "the limit is 40 KiB",
                           "30 KiB left of its limit of 60 KiB", "state.weight"}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
  CHECK(complaint(test::tiny_config(), make_budget({}, limited_machine(kGiB))) == "no error");
}

TEST_CASE("a host limit that is given replaces what the system says") {
  MachineMemory machine = limited_machine(30 * kKiB);
  machine.host.available_bytes = kKiB;
  const Budget budget = make_budget(limits({}, kGiB), machine);
  CHECK(budget.host_limit == kGiB);
  CHECK_FALSE(budget.host_available.has_value());
  CHECK(complaint(test::tiny_config(), budget) == "no error");
}

TEST_CASE("ranks of one control group share what it leaves") {
  MachineMemory machine = limited_machine(400 * kKiB);
  machine.sharers = 4;
  CHECK(make_budget({}, machine).host_limit == 110 * kKiB);
}

TEST_CASE("available memory below the plan is a warning with both figures") {
  MachineMemory machine;
  machine.device.backend = "cpu";
  machine.host.available_bytes = 30 * kKiB;
  const Setup setup = make_setup(test::tiny_config(), 0, 1, make_budget({}, machine));
  REQUIRE(setup.host_bytes() > 30 * kKiB);
  for (const std::string& part : {format_bytes(setup.host_bytes()), std::string("30 KiB"),
                                  std::string("memory.host_limit")}) {
    CHECK_THAT(setup.host_warning(), ContainsSubstring(part));
  }
  machine.host.available_bytes = setup.host_bytes();
  CHECK(make_setup(test::tiny_config(), 0, 1, make_budget({}, machine)).host_warning().empty());
}
