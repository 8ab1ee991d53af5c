// Tests the warning of what rounding to e4m3 makes zero.

#include "train/fp8_watch.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"
#include "support/tiny_engine.h"

namespace strata::test {
namespace {

/// Puts a number into each row of the down projection of layer 1, into another column each.
void plant(TrainingState& state, float outlier) {
  for (const BlockId b : state.ids()) {
    const auto& segments = state.layout().blocks[b].segments;
    const auto down = std::ranges::find(segments, "layers.1.down", &Segment::name);
    if (down == segments.end()) continue;
    for (std::int64_t row = 0; row < down->rows; ++row) {
      const std::int64_t at = down->offset + row * down->cols + row % down->cols;
      state.block(b).weight.as<Bf16>()[at] = Bf16(outlier);
      state.block(b).low.as<std::int16_t>()[at] = 0;
    }
  }
}

/// Returns what the steps of a run in e4m3 count with such outliers, or without.
std::vector<Fp8StepCounts> counts_with(std::optional<float> outlier) {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.run.products = Products::kFp8;
  config.run.fp8_metrics_every = 1;
  std::vector<Fp8StepCounts> counts;
  run_ranks(1, [&](Ranks& group) {
    TinyEngine engine(config, group);
    if (outlier) plant(engine.state(), *outlier);
    engine.submit_steps(0, 2);
    engine.synchronize();
    counts = engine.take_fp8_counts();
  });
  return counts;
}

}  // namespace

TEST_CASE("outliers in a weight give a warning that names product and layer, once") {
  const std::vector<Fp8StepCounts> counts = counts_with(0x1p20F);
  REQUIRE(counts.size() == 2);
  Fp8Watch watch;
  const std::string warning = watch.look(counts[0]);
  CAPTURE(warning);
  CHECK(
      warning.starts_with("step 1: rounding to e4m3 makes 96.3 % of w of layers.1.down zero, "
                          "beside numbers up to 1.05e+06, and more than 5 % of "));
  CHECK(
      warning.ends_with("; name \"down\" or \"layers.1\" in run.products_bf16 if the loss "
                        "suffers"));
  CHECK(watch.look(counts[0]).empty());
}

TEST_CASE("there is no warning of a model without outliers") {
  Fp8Watch watch;
  for (const Fp8StepCounts& step : counts_with({})) CHECK(watch.look(step).empty());
}

}  // namespace strata::test
