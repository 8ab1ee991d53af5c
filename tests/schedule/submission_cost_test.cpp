// Tests what a step costs the submitting thread as it grows. What stores look at to find a slot, or
// what to load next, is counted; the count of a cell must not grow with the number of cells.

#include <cstdint>
#include <string>

#include "strata/comm/ranks.h"
#include "strata/engine/training_engine.h"
#include "strata/ops/backend.h"
#include "strata/plan/setup.h"
#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kFewCells = 16;
constexpr std::int64_t kManyCells = 512;
constexpr std::int64_t kFewLayers = 4;
constexpr std::int64_t kManyLayers = 64;

/// Returns how much the stores look at for each unit of each sub-batch, in the second of two steps.
double looks_per_cell(const RunConfig& config) {
  const Setup setup = make_setup(config, 0, 1, {.device_is_host = true});
  const Backend backend = make_backend(BackendKind::kDry, {});
  const std::unique_ptr<Ranks> ranks = make_dry_ranks(0, 1);
  RankGroups groups(*ranks, ShardGroup::kAll);
  GroupCollectives collectives = make_group_collectives(groups, *backend.device);
  TrainingEngine engine(setup, {backend, *ranks, collectives},
                        [](const StepOutcome&, std::int64_t) {});
  const auto looks = [&] {
    return engine.activations().looks() + engine.kept().looks() + engine.weights().looks();
  };
  std::int64_t before = 0;
  for (const int step : {0, 1}) {
    before = looks();
    engine.submit(step, 1e-3, [](int, const PassBuffers&) { return std::int64_t{1}; });
  }
  return static_cast<double>(looks() - before) /
         static_cast<double>(setup.walk.layers * setup.walk.cells);
}

RunConfig sized(RunConfig config, std::int64_t layers, std::int64_t cells) {
  config.model.llama.num_hidden_layers = layers;
  config.schedule.sub_batches = cells;
  return config;
}

}  // namespace

TEST_CASE("what a cell costs to submit does not grow with the number of cells", "[one_thread]") {
  struct Case {
    std::string name;
    /// Changes a config of so many layers and sub-batches.
    void (*change)(RunConfig&, std::int64_t layers, std::int64_t cells);
  };
  const Case cases[] = {
      {"all boundaries on the device",
       [](RunConfig& c, std::int64_t layers, std::int64_t cells) {
         c.schedule.activation_slots = (layers + 1) * cells;
       }},
      {"as many slots as forward needs",
       [](RunConfig& c, std::int64_t, std::int64_t cells) {
         c.schedule.activation_slots = cells + 1;
       }},
      {"half of all slots",
       [](RunConfig& c, std::int64_t layers, std::int64_t cells) {
         c.schedule.activation_slots = layers * cells / 2;
       }},
      {"two slots",
       [](RunConfig& c, std::int64_t, std::int64_t) { c.schedule.activation_slots = 2; }},
      {"cells that spill through many slots",
       [](RunConfig& c, std::int64_t, std::int64_t cells) {
         c.schedule.activations = KeepLevel::kRecompute;
         c.schedule.spill = KeepLevel::kFull;
         c.schedule.spill_slots = cells;
       }},
      {"a slot for every layer's weights",
       [](RunConfig& c, std::int64_t layers, std::int64_t) { c.schedule.weight_slots = layers; }},
      {"all weights at home on the device",
       [](RunConfig& c, std::int64_t layers, std::int64_t) {
         c.schedule.resident_units = layers + 2;
       }},
  };
  for (const Case& c : cases) {
    const auto looks = [&](std::int64_t layers, std::int64_t cells) {
      RunConfig config = sized(tiny_config(), layers, cells);
      c.change(config, layers, cells);
      return looks_per_cell(config);
    };
    INFO(c.name);
    constexpr double kMost = 16;
    CHECK(looks(kFewLayers, kFewCells) < kMost);
    CHECK(looks(kFewLayers, kManyCells) < kMost);
    CHECK(looks(kManyLayers, kFewCells) < kMost);
    CHECK(looks(kManyLayers, 1) < kMost);
  }
}

}  // namespace strata::test
