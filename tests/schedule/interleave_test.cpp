// Tests steps in which the state of layers visits the device for its update: it travels in an order
// that holds nothing up. tests/optimizer/updaters_test.cpp tests the updates themselves, and
// modes_test.cpp has whole runs of all kinds.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/model/families.h"
#include "strata/optimizer/state_shuttle.h"
#include "strata/store/weight_store.h"
#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

RunConfig config_of(UpdateTiming timing) {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.optimizer.gradient_dtype = DType::kBF16;
  config.optimizer.timing = timing;
  if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip = std::nullopt;
  config.schedule.sub_batches = 2;
  config.model.llama.num_hidden_layers = 4;
  return config;
}

std::vector<std::size_t> on_lane(const Recorder& r, std::vector<std::size_t> found, Lane lane) {
  std::erase_if(found, [&](std::size_t i) { return r.records()[i].lane != lane; });
  return found;
}

constexpr int kLayersPastLead = WeightStore::kUpdateLead + 4;

/// Two steps, before_use, all layers interleaved.
RunConfig more_layers_than_lead() {
  RunConfig config = config_of(UpdateTiming::kBeforeUse);
  config.run.steps = 2;
  config.model.llama.num_hidden_layers = kLayersPastLead;
  config.optimizer.interleave = 1;
  config.schedule.weight_slots = 2;
  return config;
}

}  // namespace

TEST_CASE("a layer of more than one chunk does not change a bit", "[slow]") {
  RunConfig config = config_of(UpdateTiming::kBeforeUse);
  config.optimizer.moment_dtype = DType::kBF16;
  config.run.steps = 2;
  config.model.llama.num_hidden_layers = 1;
  config.model.llama.intermediate_size = 140'001;
  config.schedule.sub_batches = 1;
  REQUIRE(make_layout(spec_of(config.model.llama)).blocks[BlockId(1)].elements >
          StateShuttle::kChunk);
  const RunResult plain = run_tiny(config);
  config.optimizer.interleave = 1;
  CHECK(run_tiny(config) == plain);
}

TEST_CASE("state that is updated in forward travels with the loads, while earlier layers run") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const bool spilled : {false, true}) {
      INFO(std::string(enum_name(kUpdateTimingNames, timing)) << ", spilled " << spilled);
      RunConfig config = config_of(timing);
      config.run.steps = 2;
      config.optimizer.interleave = 1;
      config.optimizer.deferred_units = 5;
      config.schedule.weight_slots = 2;
      config.schedule.activation_slots = spilled ? 3 : 100;
      Recorder r;
      trace_run(r, config);
      const std::size_t update = r.find(AdamW::kName, {"update", -1, 4, -1}).at(0);
      // Records of the second step are the second half.
      const auto forward = [&](std::string_view name, int unit, Lane lane) {
        const std::vector<std::size_t> found =
            on_lane(r, r.find(name, {"forward", -1, unit, 0}), lane);
        return found.at(found.size() / 2);
      };
      CHECK(r.may_overlap(update, forward("matmul", 3, Lane::kCompute)));
      // The out-lane takes what the first layers spill first.
      CHECK(r.may_overlap(update, forward("matmul", 1, Lane::kCompute)) != spilled);
      if (spilled) CHECK(forward("copy", 1, Lane::kOut) < update);
    }
  }
}

TEST_CASE("state that is updated in forward leaves the link to loads that are behind") {
  Recorder r;
  trace_run(r, more_layers_than_lead());
  constexpr int kLead = static_cast<int>(WeightStore::kUpdateLead);
  // Updates of the first step come in forward of the second, whose records are the second half.
  const auto loads = [&](int unit) {
    std::vector<std::size_t> found =
        on_lane(r, r.find("copy", {"forward", -1, unit, -1}), Lane::kWeightsIn);
    found.erase(found.begin(), found.begin() + std::ssize(found) / 2);
    REQUIRE(!found.empty());
    return found;
  };
  for (const int block : {kLead + 1, kLayersPastLead}) {
    INFO("block " << block);
    const std::size_t state =
        on_lane(r, r.find("copy", {"update", -1, block, -1}), Lane::kActivationsIn).at(0);
    for (const std::size_t load : loads(block - kLead)) CHECK(!r.may_overlap(state, load));
    for (const std::size_t load : loads(block - kLead + 1)) CHECK(r.may_overlap(state, load));
  }
}

TEST_CASE("turns protect nothing") {
  Recorder r;
  trace_run(r, more_layers_than_lead(), 1, WaitFor::kTurn);
  const std::vector<Race> races = r.races(1);
  CHECK((races.empty() ? "" : races.front().text) == "");
  const bool waited = std::ranges::any_of(r.records(), [](const TraceRecord& record) {
    return std::ranges::any_of(record.waits,
                               [](const Wait& wait) { return wait.why == WaitFor::kTurn; });
  });
  CHECK(!waited);
}

TEST_CASE("an interleaved layer keeps nothing pageable, and its gradient on the device") {
  const auto bytes = [](const Setup& s, Space space) {
    std::size_t sum = 0;
    for (const MemoryPlan::Entry& entry : s.plan.entries()) {
      if (entry.space == space && entry.name.starts_with("state.")) sum += entry.bytes;
    }
    return sum;
  };
  RunConfig config = config_of(UpdateTiming::kBeforeUse);
  const Setup host = make_setup(config, 0, 1, {});
  config.optimizer.interleave = 0.5;
  const Setup some = make_setup(config, 0, 1, {});
  MemoryPlan layer;  // two of them
  const auto n = static_cast<std::size_t>(host.model->blocks[BlockId(1)].shard_elements(1));
  for (int i = 0; i < 2; ++i) {
    layer.allocate(Space::kDevice, "gradient", 2 * n);
    for (const std::size_t size : {2, 4, 4}) layer.allocate(Space::kPinned, "low, m, v", size * n);
  }
  const std::size_t gradients = layer.total(Space::kDevice);
  const std::size_t others = layer.total(Space::kPinned);
  CHECK(bytes(some, Space::kDevice) == gradients);
  CHECK(bytes(some, Space::kPinned) + gradients == bytes(host, Space::kPinned) + others);
  CHECK(bytes(some, Space::kPageable) + others == bytes(host, Space::kPageable));
  CHECK_THAT(some.state_text(), ContainsSubstring("0 of 6 units resident, 2 interleaved"));
}

}  // namespace strata::test
