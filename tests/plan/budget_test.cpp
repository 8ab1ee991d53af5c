// Which limits follow from a config and from machines that are made up here. What a user is told
// who does not stay within them is read from the errors and warnings of setups.

#include "strata/plan/budget.h"

#include <algorithm>
#include <string>
#include <vector>

#include "predict/paper_machines.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/setup.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

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

TEST_CASE("ranks of a host count on their share of what it carries to devices") {
  MachineMemory machine = gpu_machine();
  machine.device.name = "NVIDIA H200";
  CHECK(make_budget({}, machine).link_gbs == 50);
  machine.ranks_on_host = 4;
  CHECK(make_budget({}, machine).link_gbs == 20);
  CHECK(make_budget({}, machine).ranks_on_host == 4);
  machine.device.name = "NVIDIA GH200 480GB";  // each has a memory of its own
  CHECK(make_budget({}, machine).link_gbs == 300);
}

TEST_CASE("ranks plan by the tightest of their budgets, which says whose it is") {
  std::vector<Budget> ranks{make_budget({}, limited_machine(30 * kKiB)),
                            make_budget({}, limited_machine(20 * kKiB)),
                            make_budget(limits({}, kGiB), limited_machine(kGiB))};
  ranks[2].host_overhead = 12 * kKiB;
  ranks[2].link_gbs = 20;
  ranks[1].ranks_on_host = 4;
  const Budget least = least_of(ranks);
  CHECK(least.host_limit == ranks[1].host_limit);
  CHECK(least.host_limit_origin == ranks[1].host_limit_origin + " (on rank 1, the tightest)");
  CHECK(least.host_overhead == 12 * kKiB);
  CHECK(least.link_gbs == 20);
  CHECK(least.ranks_on_host == 4);
  CHECK_FALSE(least.device_limit.has_value());
  ranks[2].device_limit = kGiB;
  CHECK(least_of(ranks).device_limit == kGiB);
  CHECK(least_of({ranks[0], ranks[0]}).host_limit_origin == ranks[0].host_limit_origin);
}

TEST_CASE("ranks agree on one budget") {
  run_ranks(3, [](Ranks& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const Budget own = make_budget(limits({}, (3 - rank) * kGiB), limited_machine(8 * kGiB));
    const Budget agreed = agree_on_budget(own, ranks);
    CHECK(agreed.host_limit == kGiB);
    CHECK(agreed.device_is_host);
    CHECK(agreed.ranks_on_host == 1);
    CHECK(agree_on_device("GPU " + std::to_string(rank), ranks) == "GPU 0");
    CHECK(agreed.host_limit_origin == "memory.host_limit (on rank 2, the tightest)");
  });
}

TEST_CASE("without a host limit what the control group leaves is one") {
  const Budget budget = make_budget({}, limited_machine(30 * kKiB));
  CHECK(budget.host_limit == 40 * kKiB);  // what the process already holds is part of its plan
  const std::string text = complaint(test::tiny_config(), budget);
  for (const char* part : {"memory.host_limit is null", "/groups/job", "the limit is 40 KiB",
                           "30 KiB left of its limit of 60 KiB", " pinned, ", " heap, "}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
  CHECK(complaint(test::tiny_config(), make_budget({}, limited_machine(kGiB))) == "no error");
}

TEST_CASE("without a host limit and a control group a run takes nearly all that is available") {
  MachineMemory machine;
  machine.device.backend = "cpu";
  machine.resident = 10 * kKiB;
  machine.host.available_bytes = 1000 * kKiB;
  const Budget budget = make_budget({}, machine);
  CHECK(budget.host_limit == 980 * kKiB);
  const std::string text = complaint(test::tiny_config(), budget);
  for (const char* part :
       {"memory.host_limit is null", "1000 KiB are available", "grows on demand"}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
  machine.host.available_bytes = kGiB;
  CHECK(complaint(test::tiny_config(), make_budget({}, machine)) == "no error");
}

TEST_CASE("the tighter of a control group and what is available limits the host") {
  MachineMemory machine = limited_machine(30 * kKiB);
  machine.host.available_bytes = kGiB;
  CHECK(make_budget({}, machine).host_limit == 40 * kKiB);
  machine.host.available_bytes = 10 * kKiB;
  CHECK(make_budget({}, machine).host_limit < 20 * kKiB);
}

TEST_CASE("a host limit that is given is believed above what is available, with a warning") {
  MachineMemory machine;
  machine.device.backend = "cpu";
  machine.host.available_bytes = 1000 * kKiB;
  const Budget budget = make_budget(limits({}, kGiB), machine);
  CHECK(budget.host_limit == kGiB);
  const Setup setup = make_setup(test::tiny_config(), 0, 1, budget);
  for (const std::string& part : {format_bytes(setup.host_bytes()), std::string("970 KiB"),
                                  std::string("memory.host_limit")}) {
    CHECK_THAT(setup.host_warning(), ContainsSubstring(part));
  }
  machine.host.available_bytes = kGiB;
  CHECK(make_setup(test::tiny_config(), 0, 1, make_budget(limits({}, kGiB), machine))
            .host_warning()
            .empty());
}

TEST_CASE("a host limit that is given is lowered to what the control group leaves") {
  const Budget budget = make_budget(limits({}, kGiB), limited_machine(30 * kKiB));
  CHECK(budget.host_limit == 40 * kKiB);
  CHECK_THAT(budget.host_limit_origin, ContainsSubstring("memory.host_limit is 1 GiB, but"));
}

TEST_CASE("ranks of one control group share what it leaves") {
  MachineMemory machine = limited_machine(400 * kKiB);
  machine.sharers = 4;
  CHECK(make_budget({}, machine).host_limit == 110 * kKiB);
}

TEST_CASE("on the cpu backend device memory counts against the host's limit") {
  const RunConfig config = test::tiny_config();
  Budget budget{.device_is_host = true};
  const Setup setup = make_setup(config, 0, 1, budget);
  REQUIRE(setup.device_bytes() > 0);
  CHECK(setup.host_bytes() == setup.plan.host_total() + setup.device_bytes());
  budget.host_limit = setup.host_bytes() - 1;
  CHECK_THAT(complaint(config, budget), ContainsSubstring("as device memory of the cpu backend"));
}

namespace {

/// Returns the bytes that a text says `change` saves.
std::size_t saving_in(const std::string& text, const std::string& change) {
  const std::size_t at = text.find("  " + change + " saves ");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + change.size() + 9;
  std::string size = text.substr(begin, text.find('\n', begin) - begin);
  std::erase(size, ' ');
  return parse_bytes(size);
}

}  // namespace

TEST_CASE("a refusal names the keys that save most with what they save, and ends with a sentence") {
  RunConfig config = test::tiny_config();
  config.run.dtype = DType::kF32;
  config.optimizer.gradient_dtype = DType::kF32;
  config.schedule.rows = 2;
  config.schedule.sub_batches = 4;
  config.schedule.passes = 1;
  const auto planned = [](const RunConfig& c) { return make_setup(c, 0, 1, {}); };
  const std::size_t host = planned(config).host_bytes();
  const std::string text = complaint(config, {.host_limit = host - 1});
  CHECK(std::ranges::count(text, '\n') <= 7);
  CHECK_THAT(text, !ContainsSubstring("state.weight"));

  RunConfig small = config;
  small.optimizer.moment_dtype = DType::kBF16;
  const std::size_t exact = host - planned(small).host_bytes();
  const std::size_t said = saving_in(text, "optimizer.moment_dtype=bf16");
  CHECK(said > exact - exact / 50);  // sizes are printed with three digits
  CHECK(said < exact + exact / 50);

  const std::size_t device = planned(config).device_bytes();
  RunConfig flat = config;
  flat.schedule.rows = 1;
  flat.schedule.sub_batches = 8;
  const std::string on_device = complaint(config, {.device_limit = 1});
  REQUIRE(planned(flat).device_bytes() < device);
  CHECK(saving_in(on_device, "schedule.rows=1 with schedule.sub_batches=8") > 0);
  CHECK(on_device.ends_with("lists every byte"));
}

namespace {

/// Returns the assignments of the line of a refusal that lets a run fit.
std::vector<std::string> line_that_fits(const std::string& refusal) {
  std::vector<std::string> sets;
  const std::string option = " --set ";
  for (std::size_t at = refusal.find(option); at != std::string::npos;
       at = refusal.find(option, at)) {
    at += option.size();
    sets.push_back(refusal.substr(at, refusal.find_first_of(" \n", at) - at));
  }
  return sets;
}

}  // namespace

TEST_CASE("an 8B with the documented chat config that a usual PC refuses is given keys that fit") {
  // docs/fine-tuning.md, on a card of 24 GiB and 64 GiB of memory.
  std::vector<std::string> sets{"model.max_position_embeddings=4096",
                                "data.sequence_length=4096",
                                "data.document_mask=true",
                                "data.synthetic=false",
                                "data.train=train.bin",
                                "data.packing=true",
                                "schedule.rows=1",
                                "schedule.sub_batches=16",
                                "schedule.passes=1",
                                "optimizer.grad_clip=1",
                                "optimizer.weight_decay=0",
                                "memory.device_limit=null",
                                "memory.host_limit=null",
                                "checkpoint.every_steps=100"};
  const PlannedRank pc{
      .budget = {.device_limit = 23 * kGiB,
                 .device_limit_origin = "the card",
                 .device_overhead = estimated_device_overhead(BackendChoice::kCuda),
                 .host_limit = 62 * kGiB,
                 .host_limit_origin = "the memory",
                 .host_overhead = estimated_host_overhead(BackendChoice::kCuda)},
      .device = "NVIDIA GeForce RTX 4090"};
  const RunConfig config = test::config_file("llama3-8b.json", sets);
  const auto plan = [&](const RunConfig& c) { return make_setup(c, choices_by_rule(c), pc); };
  CHECK_THROWS_AS(plan(config), OutOfMemory);
  std::string text;
  try {
    static_cast<void>(choose_placement(config, pc));
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  INFO(text);
  // The host is short first; the device would have to take what it has no room for.
  CHECK(text.find("on the host") < text.find("on the device"));
  CHECK_THAT(text, ContainsSubstring("moments in 8 bits, no clipping"));
  const std::vector<std::string> line = line_that_fits(text);
  REQUIRE(line.size() >= 3);
  std::vector<std::string> all = sets;
  all.insert(all.end(), line.begin(), line.end());
  CHECK_NOTHROW(plan(test::config_file("llama3-8b.json", all)));
  // None of them is there for nothing.
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i].starts_with("schedule.")) continue;  // rows and sub-batches make a step together
    all = sets;
    for (std::size_t j = 0; j < line.size(); ++j) {
      if (j != i) all.push_back(line[j]);
    }
    CAPTURE(line[i]);
    const auto without = [&] { return plan(test::config_file("llama3-8b.json", all)); };
    CHECK_THROWS(without());  // it does not fit, or is no run
  }
}

TEST_CASE("an 8B that 24 GiB beside 32 GiB refuse is told to do without masters, and then fits") {
  const PlannedRank pc{
      .budget = {.device_limit = 23 * kGiB,
                 .device_limit_origin = "the card",
                 .device_overhead = estimated_device_overhead(BackendChoice::kCuda),
                 .host_limit = 28 * kGiB,
                 .host_limit_origin = "the memory",
                 .host_overhead = estimated_host_overhead(BackendChoice::kCuda)},
      .device = "NVIDIA GeForce RTX 4090"};
  std::vector<std::string> sets{"memory.device_limit=null", "data.sequence_length=2048"};
  std::string text;
  try {
    static_cast<void>(choose_placement(test::config_file("llama3-8b.json", sets), pc));
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("no master weights"));
  const std::vector<std::string> line = line_that_fits(text);
  CHECK(std::ranges::find(line, "optimizer.master=none") != line.end());
  sets.insert(sets.end(), line.begin(), line.end());
  const RunConfig config = test::config_file("llama3-8b.json", sets);
  CHECK_NOTHROW(make_setup(config, choices_by_rule(config), pc));
}

TEST_CASE("a refusal proposes nothing that the other memory cannot hold") {
  RunConfig config = test::tiny_config();
  config.schedule.resident_units = 0;
  const Setup streamed = make_setup(config, 0, 1, {});
  Budget budget{.host_limit = streamed.host_bytes() - 1};
  const std::string moved = "schedule.resident_units=null";
  budget.device_limit = kGiB;
  CHECK_THAT(complaint(config, budget), ContainsSubstring(moved));
  budget.device_limit = streamed.device_bytes();
  CHECK_THAT(complaint(config, budget), !ContainsSubstring(moved));
}
