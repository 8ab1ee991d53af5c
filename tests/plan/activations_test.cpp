// What the planner decides to keep and to spill of each cell, against budgets that are worked out
// by hand. Nothing runs: a setup is made and its plan is read.

#include <algorithm>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/setup.h"
#include "support/catch.h"
#include "support/tiny_config.h"

namespace {

using namespace strata;

// Of tiny_config in f64: N = 7 tokens, C = 20, H * D = 24, K * D = 12, F = 27; multiples of 256.
constexpr std::size_t kAttentionBytes = 1536 + 256;  // 7 * 24 * 8 and 4 * 7 * 8
constexpr std::size_t kOutBytes = 1280;              // 7 * 20 * 8
constexpr std::size_t kQkvBytes = 2816;              // 7 * 48 * 8
constexpr std::size_t kGateUpBytes = 3072;           // 7 * 54 * 8
constexpr std::size_t kFullBytes = kAttentionBytes + kOutBytes + kQkvBytes + kGateUpBytes;
constexpr std::size_t kBoundaryBytes = 1280;
constexpr std::size_t kCells = 3 * 6;
constexpr int kBoundaries = 4 * 6;

RunConfig config_of(std::optional<KeepLevel> level) {
  RunConfig config = test::tiny_config();
  config.schedule.activations = level;
  return config;
}

/// Returns what all cells take at a level, or several. They need no scratch for it, which is as
/// large as what one of them keeps.
constexpr std::size_t all_cells(std::size_t bytes) { return (kCells - 1) * bytes; }

/// Returns the device bytes of everything but what is kept.
std::size_t least_bytes() {
  return make_setup(config_of(KeepLevel::kRecompute), 0, 1, {}).device_bytes();
}

Setup setup_with(std::optional<KeepLevel> level, std::size_t device_limit) {
  return make_setup(config_of(level), 0, 1, {.device_limit = device_limit});
}

std::string level_complaint(std::optional<KeepLevel> level, const Budget& budget) {
  try {
    (void)make_setup(config_of(level), 0, 1, budget);
  } catch (const OutOfMemory& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what is worth most is kept first, of the last layers first") {
  const std::size_t limit =
      least_bytes() + all_cells(kAttentionBytes + kOutBytes) + 5 * kQkvBytes + 2000;
  const Setup s = setup_with(std::nullopt, limit);
  REQUIRE(s.kept.levels.size() == kCells);
  for (std::size_t i = 0; i < kCells; ++i) {
    CHECK(s.kept.levels[i] == (i < kCells - 5 ? KeepLevel::kAttentionOut : KeepLevel::kSelective));
  }
  CHECK(s.device_bytes() == limit - 2000);
  CHECK_THAT(s.to_string(), ContainsSubstring("18 cells: 13 attention_out, 5 selective"));
  CHECK_THAT(s.to_string(), ContainsSubstring("kept.qkv"));
}

TEST_CASE("what a level leaves goes to the next one if that takes less") {
  const Setup s = setup_with(std::nullopt, least_bytes() + 2 * kAttentionBytes + kOutBytes);
  CHECK(s.kept_text() == "18 cells: 16 recompute, 1 attention, 1 attention_out");
}

TEST_CASE("with room for everything everything is kept, and a byte less is the scratch as well") {
  const std::size_t all = least_bytes() + all_cells(kFullBytes);
  CHECK(setup_with(std::nullopt, all).kept_text() == "18 cells: 18 full");
  CHECK(setup_with(std::nullopt, all).device_bytes() == all);
  CHECK(setup_with(std::nullopt, 10 * all).device_bytes() == all);
  CHECK(setup_with(std::nullopt, all - 1).kept_text() == "18 cells: 2 selective, 16 full");
}

TEST_CASE("boundaries come before what is chosen to be kept, and after what is asked for") {
  const std::size_t limit = least_bytes() + all_cells(kFullBytes) - 3 * kBoundaryBytes;
  const Setup asked = setup_with(KeepLevel::kFull, limit);
  CHECK(asked.activation_slots == kBoundaries - 3);
  CHECK(asked.kept.count(KeepLevel::kFull) == kCells);
  const Setup chosen = setup_with(std::nullopt, limit);
  CHECK(chosen.activation_slots == kBoundaries);
  CHECK(chosen.kept.count(KeepLevel::kFull) == kCells - 3);  // scratch, and 3840 bytes
}

TEST_CASE("boundaries that do not all fit leave what forward does not read to what is kept") {
  const Setup s = setup_with(std::nullopt, least_bytes() - kBoundaryBytes);
  CHECK(s.activation_slots == 6 + 1);
  // Of 16 slots' bytes, 20480.
  CHECK(s.kept_text() == "18 cells: 7 recompute, 11 attention");
  CHECK(s.spilled_text() == "24 boundaries");
  const Setup fewer = setup_with(std::nullopt, least_bytes() - 20 * kBoundaryBytes);
  CHECK(fewer.activation_slots == 4);
  CHECK(fewer.kept_text() == "18 cells: 18 recompute");
}

TEST_CASE("a level that is asked for and does not fit is refused with its key") {
  // Two slots for boundaries are the fewest.
  const std::size_t fewest = least_bytes() - (kBoundaries - 2) * kBoundaryBytes;
  const std::size_t limit = fewest + all_cells(kFullBytes);
  CHECK(level_complaint(KeepLevel::kFull, {.device_limit = limit}) == "no error");
  const std::string text = level_complaint(KeepLevel::kFull, {.device_limit = limit - 1});
  CHECK_THAT(text, ContainsSubstring("schedule.activations=auto saves"));
  CHECK(level_complaint(std::nullopt, {.device_limit = limit - 1}) == "no error");
  CHECK_THAT(
      level_complaint(KeepLevel::kFull, {.host_limit = least_bytes(), .device_is_host = true}),
      ContainsSubstring("schedule.activations=auto saves"));
}

TEST_CASE("without a limit of its own the cpu keeps nothing") {
  CHECK(make_setup(config_of(std::nullopt), 0, 1, {.device_is_host = true})
            .kept.count(KeepLevel::kRecompute) == kCells);
  const Budget group{.host_limit = kGiB, .device_is_host = true};
  CHECK(make_setup(config_of(std::nullopt), 0, 1, group).kept.count(KeepLevel::kRecompute) ==
        kCells);
}

TEST_CASE("on the cpu what is kept counts as host memory") {
  RunConfig config = config_of(std::nullopt);
  const std::size_t least = make_setup(config, 0, 1, {.device_is_host = true}).host_bytes();
  const std::size_t limit = least + 3 * kAttentionBytes;
  config.memory.host_limit = ByteSize{limit};
  const Setup by_host = make_setup(config, 0, 1, {.host_limit = limit, .device_is_host = true});
  CHECK(by_host.kept_text() == "18 cells: 15 recompute, 3 attention");
  const Setup by_both =
      make_setup(config, 0, 1, {.device_limit = kGiB, .host_limit = limit, .device_is_host = true});
  CHECK(by_both.kept_text() == "18 cells: 15 recompute, 3 attention");
}

TEST_CASE("recomputed FLOPs are those of what is not kept") {
  constexpr double kAttention = 2.0 * 24 * 7;  // causal: half of 4 * H * D * T
  constexpr double kOut = 2.0 * 24 * 20;
  constexpr double kQkv = 2.0 * 20 * 48;
  constexpr double kGateUp = 2.0 * 20 * 54;
  const auto flops = [](KeepLevel level) {
    return make_setup(config_of(level), 0, 1, {}).recompute_flops_per_token();
  };
  CHECK(flops(KeepLevel::kRecompute) == 3 * (kAttention + kOut + kQkv + kGateUp));
  CHECK(flops(KeepLevel::kAttention) == 3 * (kOut + kQkv + kGateUp));
  CHECK(flops(KeepLevel::kAttentionOut) == 3 * (kQkv + kGateUp));
  CHECK(flops(KeepLevel::kSelective) == 3 * kGateUp);
  CHECK(flops(KeepLevel::kFull) == 0);
  // 16 of 18 cells full, 6 of them a token's way through one layer.
  const Setup mixed = setup_with(std::nullopt, least_bytes() + all_cells(kFullBytes) - 1);
  CHECK(mixed.recompute_flops_per_token() == kGateUp / 6 * 2);
  RunConfig spilling = config_of(KeepLevel::kAttention);
  spilling.schedule.spill = KeepLevel::kSelective;
  CHECK(make_setup(spilling, 0, 1, {}).recompute_flops_per_token() == 3 * kGateUp);
}

TEST_CASE("there is no scratch for what every cell keeps or spills") {
  const auto has_scratch = [](const RunConfig& config, const std::string& name) {
    const Setup s = make_setup(config, 0, 1, {});
    return std::any_of(s.plan.entries().begin(), s.plan.entries().end(),
                       [&](const MemoryPlan::Entry& e) { return e.name == "scratch." + name; });
  };
  RunConfig spilling = config_of(KeepLevel::kAttention);
  spilling.schedule.spill = KeepLevel::kSelective;
  for (const std::string name : {"attention", "lse", "x_mid", "qkv", "gate_up"}) {
    INFO(name);
    CHECK(has_scratch(config_of(KeepLevel::kRecompute), name));
    CHECK_FALSE(has_scratch(config_of(KeepLevel::kFull), name));
    CHECK(has_scratch(spilling, name) == (name == "gate_up"));
  }
  CHECK(has_scratch(config_of(KeepLevel::kFull), "mlp_norm"));
}

namespace {

/// A GPU whose link carries far more than its compute has time for.
Budget fast_link(std::size_t device_limit) {
  return {.device_limit = device_limit, .host_limit = kGiB, .peak_tflops = 1e-6};
}

Setup auto_setup(const Budget& budget) { return make_setup(config_of(std::nullopt), 0, 1, budget); }

}  // namespace

TEST_CASE("what the device cannot keep is spilled where host memory and link have room") {
  // Room for three slots that hold all of a cell.
  const std::size_t limit = least_bytes() + 3 * kFullBytes;
  const Setup s = auto_setup(fast_link(limit));
  CHECK(s.recompute_flops_per_token() == 0);
  CHECK(s.device_bytes() <= limit);
  CHECK(s.kept.count(KeepLevel::kFull) < kCells);
  CHECK(s.plan.bytes(Space::kPinned, "kept.spilled") > 0);
  CHECK_THAT(s.to_string(), ContainsSubstring("cells up to full"));
  // Where everything is kept nothing is spilled.
  const Setup all = auto_setup(fast_link(least_bytes() + all_cells(kFullBytes)));
  CHECK(all.kept.count(KeepLevel::kFull) == kCells);
  CHECK(all.spilled_text() == "0 boundaries");
}

TEST_CASE("nothing is spilled by auto where a limit or a speed is unknown, or on the cpu") {
  const std::size_t limit = least_bytes() + 3 * kFullBytes;
  Budget no_host = fast_link(limit);
  no_host.host_limit = std::nullopt;
  Budget no_speed = fast_link(limit);
  no_speed.peak_tflops = 0;
  Budget no_device = fast_link(limit);
  no_device.device_limit = std::nullopt;
  Budget cpu = fast_link(limit);
  cpu.device_is_host = true;
  for (const Budget& budget : {no_host, no_speed, no_device, cpu}) {
    CHECK(auto_setup(budget).spilled_text() == "0 boundaries");
  }
  RunConfig off = config_of(std::nullopt);
  off.schedule.spill = KeepLevel::kRecompute;
  CHECK(make_setup(off, 0, 1, no_host).spilled_text() == "0 boundaries");
  CHECK(make_setup(off, 0, 1, fast_link(limit)).plan.bytes(Space::kPinned, "kept.spilled") == 0);
  // A level that is named is what is meant, no more.
  const Setup named = make_setup(config_of(KeepLevel::kRecompute), 0, 1, fast_link(limit));
  CHECK(named.spilled_text() == "0 boundaries");
}

TEST_CASE("spills stop at what they may take of the host, first layers first") {
  RunConfig config = config_of(std::nullopt);
  config.memory.spill_limit = ByteSize{5 * kAttentionBytes};
  Budget budget = fast_link(least_bytes() + 3 * kAttentionBytes);
  budget.host_limit = std::nullopt;  // the explicit limit is enough
  const Setup s = make_setup(config, 0, 1, budget);
  CHECK(s.plan.bytes(Space::kPinned, "kept.spilled") == 5 * kAttentionBytes);
  CHECK(s.spilled_text() == "0 boundaries, 5 cells up to attention");
  for (std::size_t i = 0; i < kCells; ++i) CHECK(s.kept.spills(i) == (i < 5));
  // Three cells would fit on the device, but not beside the slots that five need.
  CHECK(s.kept_text() == "18 cells: 18 recompute");
}

TEST_CASE("a cell spills no more than the link takes while it computes") {
  // Forward of a cell: 7 tokens through all products of a layer, and attention.
  constexpr double kFlops = 7 * 2.0 * (24 * 7 + 24 * 20 + 20 * 48 + 20 * 54 + 20 * 27);
  const double forward_s = kFlops / (0.65 * 1e9);
  const double all_weights =
      8.0 *
      static_cast<double>(
          setup_with(std::nullopt, kGiB).model->blocks[BlockId(1)].shard_elements(1)) /
      6;
  struct Row {
    UpdateTiming timing;
    double interleave;
    std::int64_t deferred = 0;
    std::int64_t resident = 0;
  };
  for (const Row& row : {Row{UpdateTiming::kBeforeUse, 0}, Row{UpdateTiming::kBeforeUse, 1},
                         Row{UpdateTiming::kOnArrival, 1}, Row{UpdateTiming::kOnArrival, 1, 1},
                         Row{UpdateTiming::kBeforeUse, 0, 0, 2}}) {
    for (const std::size_t idle : {kAttentionBytes + kOutBytes, kAttentionBytes, std::size_t{0}}) {
      INFO(idle << ", interleaved " << row.interleave << ", resident " << row.resident);
      RunConfig config = config_of(KeepLevel::kRecompute);
      config.optimizer.timing = row.timing;
      config.optimizer.interleave = row.interleave;
      config.optimizer.deferred_units = row.deferred;
      config.schedule.resident_units = row.resident;
      // A slot for every boundary, so that these take nothing.
      config.schedule.activation_slots = kBoundaries;
      const Budget budget{
          .device_limit = make_setup(config, 0, 1, {}).device_bytes() + 4 * kFullBytes,
          .host_limit = kGiB,
          .peak_tflops = 1e-3};
      config.schedule.activations = std::nullopt;
      // Backward's side is the narrow one: weights come in as well. With the state of all layers,
      // weight, m and v, it is the first side where that travels.
      // The embedding and the first of three layers are resident, or none.
      const double weights = all_weights * (row.resident > 0 ? 2.0 / 3 : 1.0);
      const double state = row.interleave * 3 * weights;
      const double bytes = static_cast<double>(idle) + 0.5 + state;
      const bool in_forward =
          state > 0 && (row.timing == UpdateTiming::kBeforeUse || row.deferred > 0);
      config.hardware.link_gbs =
          (in_forward ? bytes : (bytes + weights) / 2) / (0.8 * forward_s) / 1e9;
      const Setup s = make_setup(config, 0, 1, budget);
      for (std::size_t i = 0; i < kCells; ++i) {
        CHECK(spilled_bytes(s.kept_tensors(), s.kept.levels[i], s.kept.reach[i]) <= idle);
      }
      CHECK((s.plan.bytes(Space::kPinned, "kept.spilled") > 0) == (idle > 0));
      config.schedule.spill = KeepLevel::kRecompute;
      CHECK((s.recompute_flops_per_token() <
             make_setup(config, 0, 1, budget).recompute_flops_per_token()) == (idle > 0));
    }
  }
}

TEST_CASE("boundaries that would fit go to the host if that keeps more, and the host has room") {
  RunConfig config = config_of(std::nullopt);
  config.schedule.spill = KeepLevel::kRecompute;
  Budget budget{.device_limit = least_bytes() + 1, .host_limit = kGiB, .peak_tflops = 1e-3};
  const Setup s = make_setup(config, 0, 1, budget);
  CHECK(s.activation_slots == 6 + 1);
  CHECK(s.kept_text() == "18 cells: 6 recompute, 12 attention");  // of 17 slots' bytes
  const std::size_t homes = kBoundaries * kBoundaryBytes;
  // A sixteenth of the host is left alone.
  budget.host_limit = (s.host_bytes() - 1) / 15 * 16;
  CHECK(make_setup(config, 0, 1, budget).activation_slots == kBoundaries);
  CHECK(make_setup(config, 0, 1, budget).host_bytes() == s.host_bytes() - homes);
  *budget.host_limit += 32;
  CHECK(make_setup(config, 0, 1, budget).activation_slots == 6 + 1);
  budget.host_limit = std::nullopt;
  CHECK(make_setup(config, 0, 1, budget).activation_slots == kBoundaries);
  budget.host_limit = kGiB;
  config.hardware.link_gbs = 1e-9;  // no time for boundaries either
  CHECK(make_setup(config, 0, 1, budget).activation_slots == kBoundaries);
}

TEST_CASE("whatever the limits, the choice fits them and computes no more again than without") {
  RunConfig off = config_of(std::nullopt);
  off.schedule.spill = KeepLevel::kRecompute;
  const std::size_t least = least_bytes() - (kBoundaries - 7) * kBoundaryBytes;
  const std::size_t host = auto_setup(fast_link(least_bytes())).host_bytes();
  for (std::size_t extra = 0; extra < kCells * kFullBytes; extra += 7000) {
    for (const std::size_t host_extra : {0, 3000, 40000, 400000}) {
      Budget budget = fast_link(least + extra);
      budget.host_limit = host + host_extra;
      INFO(extra << ", " << host_extra);
      const Setup s = auto_setup(budget);  // throws if it does not fit
      CHECK(s.recompute_flops_per_token() <=
            make_setup(off, 0, 1, budget).recompute_flops_per_token());
      CHECK(s.kept.least_reach() == s.sizes.kept_by_all);
    }
  }
}

TEST_CASE(
    "a spill that is asked for is of every cell, and refused with its key if it does not fit") {
  RunConfig config = config_of(std::nullopt);
  config.schedule.spill = KeepLevel::kSelective;
  // Without a limit the device keeps nothing: all of it goes through three slots.
  const Setup s = make_setup(config, 0, 1, {});
  CHECK(s.spilled_text() == "0 boundaries, 18 cells up to selective");
  constexpr std::size_t kSelectiveBytes = kAttentionBytes + kOutBytes + kQkvBytes;
  CHECK(s.plan.bytes(Space::kPinned, "kept.spilled") == kCells * kSelectiveBytes);
  CHECK(s.device_bytes() == least_bytes() + 3 * kSelectiveBytes - kSelectiveBytes);
  // With one the last cells are kept and the first are spilled.
  const Setup limited = make_setup(config, 0, 1, {.device_limit = s.device_bytes() + 20000});
  CHECK(limited.recompute_flops_per_token() == s.recompute_flops_per_token());
  CHECK(limited.kept.levels.front() == KeepLevel::kRecompute);
  CHECK(limited.kept.levels.back() > KeepLevel::kRecompute);
  CHECK(limited.plan.bytes(Space::kPinned, "kept.spilled") <
        s.plan.bytes(Space::kPinned, "kept.spilled"));
  std::string text = "no error";
  try {
    (void)make_setup(config, 0, 1, {.host_limit = s.host_bytes() - 1});
  } catch (const OutOfMemory& e) {
    text = e.what();
  }
  CHECK_THAT(text, ContainsSubstring("schedule.spill=auto saves"));
}

TEST_CASE("boundaries in int8 take a byte an element, a scale a row, and slots for forward alone") {
  RunConfig config = config_of(KeepLevel::kRecompute);
  config.schedule.spill_dtype = BoundaryForm::kInt8;
  const Setup s = make_setup(config, 0, 1, {});
  CHECK(s.activation_slots == 6 + 1);
  CHECK(s.spilled_text() == "18 boundaries in int8");
  constexpr std::size_t kHome = 256 + 256;  // 7 * 20 and 4 * 7
  CHECK(s.plan.bytes(Space::kPinned, "activations.spilled") == kCells * kHome);
  CHECK(s.device_bytes() == least_bytes() - (kBoundaries - 7) * kBoundaryBytes + 2 * kHome);
}
