// What the planner decides to keep of each cell, against budgets that are worked out by hand.

#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/train/setup.h"
#include "support/catch.h"
#include "support/tiny_run.h"

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

/// Everything but what is kept.
std::size_t least_bytes() {
  return make_setup(config_of(KeepLevel::kRecompute), 0, 1, {}).device_bytes();
}

Setup setup_with(std::optional<KeepLevel> level, std::size_t device_limit) {
  return make_setup(config_of(level), 0, 1, {.device_limit = device_limit});
}

std::string complaint(std::optional<KeepLevel> level, const Budget& budget) {
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
      least_bytes() + kCells * (kAttentionBytes + kOutBytes) + 5 * kQkvBytes + 2000;
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

TEST_CASE("with room for everything everything is kept, and a byte less is one cell less") {
  const std::size_t all = least_bytes() + kCells * kFullBytes;
  CHECK(setup_with(std::nullopt, all).kept_text() == "18 cells: 18 full");
  CHECK(setup_with(std::nullopt, all).device_bytes() == all);
  CHECK(setup_with(std::nullopt, 10 * all).kept_text() == "18 cells: 18 full");
  CHECK(setup_with(std::nullopt, all - 1).kept_text() == "18 cells: 1 selective, 17 full");
}

TEST_CASE("boundaries come before what is chosen to be kept, and after what is asked for") {
  const std::size_t limit = least_bytes() + kCells * kFullBytes - 3 * kBoundaryBytes;
  const Setup asked = setup_with(KeepLevel::kFull, limit);
  CHECK(asked.activation_slots == kBoundaries - 3);
  CHECK(asked.kept.count(KeepLevel::kFull) == kCells);
  const Setup chosen = setup_with(std::nullopt, limit);
  CHECK(chosen.activation_slots == kBoundaries);
  CHECK(chosen.kept.count(KeepLevel::kFull) == kCells - 2);  // 3840 bytes: more than one gate_up
  const Setup spilled = setup_with(std::nullopt, least_bytes() - kBoundaryBytes);
  CHECK(spilled.activation_slots == kBoundaries - 1);
  CHECK(spilled.kept.count(KeepLevel::kRecompute) == kCells);
}

TEST_CASE("a level that is asked for and does not fit is refused with its key") {
  // Two slots for boundaries are the fewest.
  const std::size_t fewest = least_bytes() - (kBoundaries - 2) * kBoundaryBytes;
  const std::size_t limit = fewest + kCells * kFullBytes;
  CHECK(complaint(KeepLevel::kFull, {.device_limit = limit}) == "no error");
  const std::string text = complaint(KeepLevel::kFull, {.device_limit = limit - 1});
  CHECK_THAT(text, ContainsSubstring("schedule.activations is \"full\""));
  CHECK_THAT(text, ContainsSubstring("kept.gate_up"));
  CHECK(complaint(std::nullopt, {.device_limit = limit - 1}) == "no error");
  CHECK_THAT(complaint(KeepLevel::kFull, {.host_limit = least_bytes(), .device_is_host = true}),
             ContainsSubstring("schedule.activations is \"full\""));
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
  // 17 of 18 cells full, 6 of them a token's way through one layer.
  const Setup mixed = setup_with(std::nullopt, least_bytes() + kCells * kFullBytes - 1);
  CHECK(mixed.recompute_flops_per_token() == kGateUp / 6);
}
