// What a save takes, on machines on which all but the disk is instant, so that the answer can be
// worked out by hand.

#include "strata/predict/save_prediction.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "predict/paper_machines.h"
#include "strata/checkpoint/state_saver.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/predictions.h"

namespace {

using namespace strata;

constexpr double kDiskGbs = 1e-3;

/// Returns a run that saves with so many bytes of staging.
RunConfig saving(std::size_t staging) {
  RunConfig config = test::fast_machine_with_large_layers();
  config.checkpoint.at_end = true;
  config.checkpoint.staging = ByteSize{staging};
  return config;
}

SavePrediction predicted_save(const RunConfig& config, double disk_gbs = kDiskGbs) {
  return predict_save(make_setup(config, 0, 1, {}), test::kNewDevice, disk_gbs);
}

/// Returns the bytes of a block's state: weights and low halves of bf16, and moments of f32.
std::size_t state_bytes(const Block& block) {
  return static_cast<std::size_t>(block.shard_elements(1)) * (2 + 2 + 4 + 4);
}

std::size_t state_bytes(const RunConfig& config) {
  std::size_t bytes = 0;
  for (const Block& block : make_layout(spec_of(config.model.llama)).blocks)
    bytes += state_bytes(block);
  return bytes;
}

void check_near(double value, double expected) {
  INFO(value << " s, not " << expected << " s");
  CHECK(std::abs(value / expected - 1) < 0.02);
}

}  // namespace

TEST_CASE("instant steps wait for the disk to write all that is not staged") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    RunConfig config = saving(0);
    config.optimizer.timing = timing;
    const auto all = static_cast<double>(state_bytes(config));
    check_near(predicted_save(config).blocked_s, all / (kDiskGbs * 1e9));
    // Blocks are staged whole, from the one that is updated last on: the first two are not.
    const ModelLayout layout = make_layout(spec_of(config.model.llama));
    const std::vector<BlockId> order = update_order(make_setup(config, 0, 1, {}).state);
    const std::size_t direct =
        state_bytes(layout.blocks[order[0]]) + state_bytes(layout.blocks[order[1]]);
    config.checkpoint.staging = ByteSize{state_bytes(config) - direct};
    check_near(predicted_save(config).blocked_s, static_cast<double>(direct) / (kDiskGbs * 1e9));
    config.checkpoint.staging = ByteSize{state_bytes(config)};
    CHECK(predicted_save(config).blocked_s < 1e-3 * all / (kDiskGbs * 1e9));
  }
}

TEST_CASE("a disk that writes within the step that follows holds up nothing") {
  RunConfig config = saving(0);
  CHECK(predicted_save(config, 1e9).blocked_s < 1e-3);
  const double instant_s = predicted_save(config).blocked_s;
  config.hardware.product_tflops = 1e-5;  // steps of several seconds
  const double hidden_s = predicted_save(config).blocked_s;
  CHECK(hidden_s < 0.6 * instant_s);
}

TEST_CASE("a save writes its files and copies through host memory and the link") {
  RunConfig config = saving(0);
  const Setup setup = make_setup(config, 0, 1, {});
  const auto files =
      static_cast<double>(make_checkpoint_layout(*setup.model, setup.saves->types).bytes());
  check_near(predicted_save(config, 2e-3).write_s, files / 2e6);
  CHECK(predicted_save(config).copy_s == 0);
  config.checkpoint.staging = ByteSize{state_bytes(config)};
  config.hardware.host_gbs = 0.5;
  const auto all = static_cast<double>(state_bytes(config));
  check_near(predicted_save(config).copy_s, 2 * all / 0.5e9);
  config.schedule.resident_units = 10;
  config.hardware.link_gbs = 0.905;  // beside copies the other way: 1 GB/s alone
  check_near(predicted_save(config).copy_s, all / 1e9);
}

TEST_CASE("blocks on the device that are not staged hold up steps too") {
  RunConfig config = saving(0);
  config.schedule.resident_units = 10;
  CHECK(predicted_save(config).blocked_s > 0.5 * static_cast<double>(state_bytes(config)) / 1e6);
}

TEST_CASE("a save is unknown without the rate of the disk, and its writing known without the GPU") {
  RunConfig config = saving(0);
  const Setup setup = make_setup(config, 0, 1, {});
  CHECK_THAT(predict_save(setup, test::kNewDevice, std::nullopt).to_string(),
             ContainsSubstring("set hardware.disk_gbs"));
  config.hardware.host_gbs.reset();
  const SavePrediction p = predicted_save(config);
  CHECK(p.write_s > 0);
  CHECK_THAT(p.to_string(), ContainsSubstring("write") && ContainsSubstring("hardware.host_gbs"));
}
