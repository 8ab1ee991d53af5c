// Tests what steps count of rounding to e4m3: counts of weights are those of the rounding of
// strata/op_checks/fp8_reference.h, counts are the same for any number of ranks, and counting
// changes no bit.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/model/fp8_counts.h"
#include "strata/op_checks/fp8_reference.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kLayers = 3;

/// A run of one step that leaves the weights as they are.
RunConfig one_step(Products products) {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.run.products = products;
  config.run.fp8_metrics_every = 1;
  config.run.steps = 1;
  config.optimizer.lr = 0;
  config.optimizer.weight_decay = 0;
  return config;
}

/// Returns what the steps of a run have counted, on its first rank.
std::vector<Fp8StepCounts> counts_of(const RunConfig& config, int ranks = 1) {
  std::vector<Fp8StepCounts> counts;
  run_ranks(ranks, [&](Ranks& group) {
    TinyEngine engine(config, group);
    engine.submit_steps(0, config.run.steps);
    engine.synchronize();
    if (group.rank() == 0) counts = engine.take_fp8_counts();
  });
  return counts;
}

/// Counts the values of a matrix, and the codes of its rows, rounded again with one scale if
/// `twice`.
Fp8Counts counted(const std::vector<double>& w, std::int64_t rows, bool twice) {
  Fp8Rows rounded = quantized(w, rows);
  if (twice) {
    const double scale = *std::ranges::max_element(rounded.scales);
    rounded.q = rounded.values();
    for (double& q : rounded.q) q = nearest_e4m3(q / scale);
  }
  Fp8Counts counts;
  counts.add(w, rounded.q);
  return counts;
}

void check_fp8_loss(const std::optional<Fp8Loss>& loss, const Fp8Counts& expected) {
  REQUIRE(loss);
  CHECK(loss->amax == expected.largest);
  CHECK(loss->flushed == (expected.numbers - expected.codes) / expected.numbers);
  CHECK(loss->subnormal == expected.subnormal / expected.numbers);
}

}  // namespace

TEST_CASE("counts of weights are those of their rounding, in all passes") {
  RunConfig config = one_step(Products::kFp8);
  config.schedule.passes = 2;
  config.schedule.sub_batches = 3;
  config.run.products_bf16 = {"attention_out", "layers.2"};
  const std::vector<Fp8StepCounts> counts = counts_of(config);
  REQUIRE(counts.size() == 1);
  CHECK(counts[0].step == 0);
  CHECK(counts[0].layers() == kLayers);
  const std::map<std::string, std::vector<double>> weights = run_tiny(config).weights;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (const auto& operand : kFp8OperandNames) {
      CHECK_FALSE(fp8_loss(counts[0], layer, LinearId::kAttentionOut, operand.value));
    }
    if (layer == 2) {
      CHECK_FALSE(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kW));
      continue;
    }
    std::vector<double> down =
        weights.at("model.layers." + std::to_string(layer) + ".mlp.down_proj.weight");
    for (double& w : down) w = static_cast<double>(Bf16(static_cast<float>(w)));
    const std::int64_t rows = config.model.llama.hidden_size;
    check_fp8_loss(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kW),
                   counted(down, rows, false));
    check_fp8_loss(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kWTransposed),
                   counted(down, rows, true));
    CHECK(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kX)->amax > 0);
    CHECK(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kDy)->amax > 0);
    CHECK_FALSE(fp8_loss(counts[0], layer, LinearId::kDown, Fp8Operand::kXColumns));
  }
}

TEST_CASE("one rank and two count the same") {
  RunConfig config = one_step(Products::kFp8All);
  config.run.fp8_metrics_every = 2;
  config.run.steps = 5;
  const std::vector<Fp8StepCounts> one = counts_of(config);
  config.schedule.sub_batches /= 2;
  const std::vector<Fp8StepCounts> two = counts_of(config, 2);
  REQUIRE(one.size() == 2);
  REQUIRE(two.size() == 2);
  CHECK(one[1].step == 3);
  for (std::size_t step = 0; step < 2; ++step) {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      for (const auto& linear : kLinearNames) {
        for (const auto& operand : kFp8OperandNames) {
          INFO(layer << ' ' << std::string(linear.name) << ' ' << std::string(operand.name));
          const auto a = fp8_loss(one[step], layer, linear.value, operand.value);
          const auto b = fp8_loss(two[step], layer, linear.value, operand.value);
          REQUIRE(a);
          REQUIRE(b);
          CHECK(a->amax == b->amax);
          CHECK(a->flushed == b->flushed);
          CHECK(a->subnormal == b->subnormal);
        }
      }
    }
  }
}

TEST_CASE("counting what e4m3 loses changes no bit, and steps that do not count submit the same",
          "[numbers]") {
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    RunConfig config = one_step(products);
    config.run.steps = 3;
    config.optimizer.lr = 1e-2;
    const RunResult counting = run_tiny(config);
    config.run.fp8_metrics_every = 0;
    CHECK(run_tiny(config) == counting);
    Recorder never;
    trace_run(never, config);
    config.run.fp8_metrics_every = 4;
    Recorder later;
    trace_run(later, config);
    CHECK(later.canonical() == never.canonical());
  }
}

}  // namespace strata::test
