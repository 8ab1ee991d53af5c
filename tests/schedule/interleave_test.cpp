// Tests layers whose state visits the device for its update: chunk by chunk they give the bits of
// an update on the host, from the same bytes, in an order that holds nothing up. modes_test.cpp has
// whole runs of all kinds.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/ops/backend.h"
#include "strata/optimizer/state_shuttle.h"
#include "strata/store/weight_store.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"
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

constexpr int kManyLayers = WeightStore::kUpdateLead + 4;

/// Two steps, before_use, all layers interleaved.
RunConfig more_layers_than_lead() {
  RunConfig config = config_of(UpdateTiming::kBeforeUse);
  config.run.steps = 2;
  config.model.llama.num_hidden_layers = kManyLayers;
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

TEST_CASE("waits that protect state on its way are found when left out") {
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const WaitFor omitted :
         {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kUpdated, WaitFor::kDecided}) {
      INFO(std::string(enum_name(kUpdateTimingNames, timing))
           << ", left out: " << std::string(name_of(omitted)));
      RunConfig config = config_of(timing);
      config.debug.execution = Execution::kEager;  // the numbers stay right
      config.optimizer.interleave = 1;
      Recorder r;
      trace_run(r, config, 1, omitted);
      const auto of_update = [&](std::size_t i) {
        const Submission& what = r.records()[i].what;
        return what.tag.phase == "update" && r.records()[i].lane != Lane::kHost;
      };
      const std::vector<Race> races = r.races(100'000);
      CHECK(std::ranges::any_of(races, [&](const Race& race) {
        return of_update(race.first) || of_update(race.second);
      }));
    }
  }
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
  for (const int block : {kLead + 1, kManyLayers}) {
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

TEST_CASE("state that travels in chunks is updated as the whole would be") {
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  const StatePlan plan =
      plan_state(layout, {.compute = DType::kBF16, .moment = DType::kBF16, .interleave = 1});
  constexpr BlockId kBlock(2);
  const std::int64_t n = layout.blocks[kBlock].elements;
  AdamWScalars scalars{.lr = 0.1, .correction1 = 0.1, .correction2 = 0.05, .rounding_seed = 7};
  std::vector<std::byte> whole;
  for (const std::int64_t chunk : {n, std::int64_t{1000}, std::int64_t{257}}) {
    INFO(n << " elements in chunks of " << chunk);
    BackendOptions backend_options;
    backend_options.device.execution = Execution::kShuffled;
    backend_options.device.poison_slots = true;
    const Backend backend = make_backend(BackendKind::kCpu, backend_options);
    Device& device = *backend.device;
    constexpr std::size_t kRoom = std::size_t{1} << 20;
    Arena on_device(device, Space::kDevice, kRoom, "device");
    Arena pinned(device, Space::kPinned, kRoom, "pinned");
    Arena pageable(device, Space::kPageable, kRoom, "pageable");
    Arenas arenas(on_device, pinned, pageable);
    TrainingState state(layout, plan, arenas);
    state.initialize(3, 0.5, *backend.pool);
    const std::size_t before = on_device.used();
    StateShuttle shuttle(state, StateShuttle::Memory(layout, plan, arenas, chunk), device, chunk);
    MemoryPlan planned;
    StateShuttle::Memory(layout, plan, planned, chunk);
    CHECK(on_device.used() - before == planned.total(Space::kDevice));
    const TensorView nonfinite = on_device.allocate_tensor("nonfinite", DType::kI32, {1});
    device.synchronize();
    *nonfinite.as<std::int32_t>() = 0;
    const BlockState& home = state.block(kBlock);
    for (std::int64_t i = 0; i < n; ++i) {
      home.grad.as<Bf16>()[i] = Bf16(static_cast<float>(i % 101) * 0.01f - 0.5f);
    }
    for (int step = 0; step < 2; ++step) {
      std::int64_t next = home.begin;
      int part_number = 0;
      const Event done =
          shuttle.ship(kBlock, device.stream(step == 0 ? Lane::kWeightsIn : Lane::kActivationsIn),
                       [&](const BlockState& part, const Tag& of_chunk) {
                         CHECK(of_chunk.chunk == part_number++);
                         CHECK(part.begin == next);
                         next += part.weight.elements();
                         backend.kernels->run(device.stream(Lane::kOut),
                                              AdamW{.weight = part.weight,
                                                    .low = part.low,
                                                    .m = part.m,
                                                    .v = part.v,
                                                    .grad = part.grad,
                                                    .scalars = &scalars,
                                                    .weight_decay = 0.1,
                                                    .rounding_stream = 2,
                                                    .rounding_begin = part.begin,
                                                    .nonfinite = nonfinite},
                                              {});
                       },
                       {});
      CHECK(next == home.begin + home.weight.elements());
      device.wait(done);
    }
    CHECK(shuttle.shipped_bytes() == 2 * 8 * static_cast<std::size_t>(home.weight.elements()));
    std::vector<std::byte> result;
    for (const TensorView& tensor : {home.weight, home.low, home.m, home.v}) {
      const auto* data = static_cast<const std::byte*>(tensor.data);
      result.insert(result.end(), data, data + tensor.bytes().bytes);
    }
    if (whole.empty()) whole = result;
    CHECK(result == whole);
  }
}

}  // namespace strata::test
