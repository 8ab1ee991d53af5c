// Tests the training state and the stores of activations and losses one by one on a cpu device:
// what they hold and what they move, against values that the tests write into slots and homes
// themselves.

#include <algorithm>
#include <cmath>

#include "strata/base/bytes.h"
#include "strata/engine/state_choices.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/store/activation_store.h"
#include "strata/store/gradient_store.h"
#include "strata/store/loss_store.h"
#include "strata/store/memory_plan.h"
#include "strata/store/training_state.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

double mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("initial weights are normal with the deviation asked for, norms are one") {
  LaneMachine machine;
  LlamaConfig m = tiny_model();
  m.vocab_size = 400;
  m.hidden_size = 64;
  const ModelLayout layout = make_layout(spec_of(m));
  TrainingState state(layout, plan_state(layout, {.compute = DType::kF64}), machine.arenas());
  state.initialize(7, 0.02, machine.pool());
  const std::vector<double> table = state.master(BlockId(0));
  const std::vector<double> used(table.begin(), table.begin() + 400 * 64);
  CHECK(std::abs(std::sqrt(mean_square(used)) - 0.02) < 0.02 * 0.03);
  const std::vector<double> head = state.master(layout.blocks.last());
  for (int i = 0; i < 64; ++i) CHECK(head[static_cast<std::size_t>(i)] == 1.0);
}

TEST_CASE("adapters begin with uniform A within the root of its width, and with B of zeros") {
  LaneMachine machine;
  LlamaConfig m = tiny_model();
  m.hidden_size = 100;
  ModelSpec spec = spec_of(m);
  add_adapters(spec, {.rank = 64, .targets = {"q_proj", "v_proj"}});
  const ModelLayout layout = make_layout(spec);
  TrainingState state(layout, plan_state(layout, {.compute = DType::kF64}), machine.arenas());
  state.initialize(7, 0.02, machine.pool());
  const BlockId block = layout.blocks.last();
  const std::vector<double> all = state.master(block);
  for (const Segment& segment : layout.blocks[block].segments) {
    const auto first = all.begin() + segment.offset;
    const std::vector<double> values(first, first + segment.elements());
    const auto [least, most] = std::ranges::minmax(values);
    if (segment.initializer == Initializer::kAdapterB) {
      CHECK(least == 0);
      CHECK(most == 0);
      continue;
    }
    CHECK(least >= -0.1);
    CHECK(most <= 0.1);
    CHECK(std::abs(std::sqrt(mean_square(values)) - 0.1 / std::sqrt(3.0)) < 0.002);
  }
  CHECK(!state.block(BlockId(1)).m);
  CHECK(state.gradient(BlockId(1)).empty());
}

TEST_CASE("initial weights do not depend on the number of ranks") {
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  LaneMachine whole;
  TrainingState one(layout, plan_state(layout, {.compute = DType::kBF16}), whole.arenas());
  one.initialize(3, 0.5, whole.pool());
  for (int rank = 0; rank < 3; ++rank) {
    LaneMachine machine;
    TrainingState part(layout,
                       plan_state(layout, {.compute = DType::kBF16, .rank = rank, .ranks = 3}),
                       machine.arenas());
    part.initialize(3, 0.5, machine.pool());
    for (const BlockId b : one.ids()) {
      const std::vector<double> all = one.master(b);
      const std::vector<double> own = part.master(b);
      const std::int64_t begin = part.block(b).begin;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(own.size()); ++i) {
        const std::int64_t at = begin + i;
        const double expected =
            at < static_cast<std::int64_t>(all.size()) ? all[static_cast<std::size_t>(at)] : 0.0;
        REQUIRE(own[static_cast<std::size_t>(i)] == expected);
      }
    }
  }
}

TEST_CASE(
    "training state takes 10 to 16 bytes a parameter, by the dtype of gradients and moments") {
  const LlamaConfig m = [] {
    LlamaConfig c = tiny_model();
    c.hidden_size = 64;
    c.intermediate_size = 64;
    c.vocab_size = 64;
    c.num_attention_heads = 16;
    c.num_key_value_heads = 16;
    c.head_dim = 4;
    return c;
  }();
  const ModelLayout layout = make_layout(spec_of(m));
  struct Case {
    DType gradient, moment;
    std::int64_t bytes;
  };
  for (const Case& c :
       {Case{DType::kBF16, DType::kF32, 14}, Case{DType::kF32, DType::kF32, 16},
        Case{DType::kBF16, DType::kBF16, 10}, Case{DType::kF32, DType::kBF16, 12}}) {
    MemoryPlan plan;
    const StateChoices choices{.compute = DType::kBF16, .gradient = c.gradient, .moment = c.moment};
    TrainingState::Memory(layout, plan_state(layout, choices), plan);
    const auto exact = static_cast<std::size_t>(c.bytes * m.parameter_count());
    CHECK(plan.host_total() >= exact);
    CHECK(plan.host_total() <= exact + 5 * 5 * 256);  // five arrays of five blocks, aligned
  }
}

TEST_CASE("with a gradient ring only the embedding and the head keep a gradient for themselves") {
  LlamaConfig m = tiny_model();
  m.num_hidden_layers = 40;
  const ModelLayout layout = make_layout(spec_of(m));
  const auto gradient_bytes = [&](int ring, int resident) {
    const StateChoices options{
        .compute = DType::kBF16, .gradient_ring = ring, .resident_units = resident};
    MemoryPlan plan;
    const StatePlan state = plan_state(layout, options);
    TrainingState::Memory(layout, state, plan);
    GradientStore::Memory(layout, state, 2, plan);
    std::size_t bytes = 0;
    for (const MemoryPlan::Entry& entry : plan.entries()) {
      const bool place = entry.name == "gradients.passing";
      if (place || entry.name.starts_with("state.gradient")) bytes += entry.bytes;
    }
    return bytes;
  };
  const auto layer =
      round_up(static_cast<std::size_t>(layout.blocks[BlockId(1)].shard_elements(1)) * 2, 256);
  CHECK(gradient_bytes(0, 0) - gradient_bytes(5, 0) == (40 - 5) * layer);
  CHECK(gradient_bytes(0, 11) - gradient_bytes(5, 11) == (40 - 5 - 1) * layer);
}

TEST_CASE("spilled activations come back as they were, whatever the ring") {
  const ActivationShape shape{
      .layers = 3, .cells = 4, .cell_tokens = 5, .hidden = 3, .dtype = DType::kF32};
  for (const int slots : {2, 3, 5, 9, shape.keys()}) {
    for (const Execution execution : {Execution::kEager, Execution::kThreads}) {
      LaneMachine machine({.execution = execution});
      Kernels& kernels = machine.kernels();
      ActivationStore store(shape, slots, kernels, machine.arenas());
      Stream& compute = machine.lane(Lane::kCompute);
      std::vector<ActivationStore::Read> reads;
      for (int b = 0; b < 3; ++b) {
        for (int c = 0; c < 4; ++c) reads.push_back({b, c});
      }
      for (int b = 3; b >= 0; --b) {
        for (int c = 0; c < 4; ++c) reads.push_back({b, c});
      }
      store.begin_pass(reads);
      const auto produce = [&](int b, int c) {
        ActivationLease y = store.produce(b, c, compute);
        kernels.run(compute,
                    Fill{.x = TensorView(y.x.data, DType::kF32, Shape{15}), .value = 10.0 * b + c},
                    {});
        store.keep(std::move(y), {});
      };
      for (int c = 0; c < 4; ++c) produce(0, c);
      for (int b = 0; b < 3; ++b) {
        for (int c = 0; c < 4; ++c) {
          const ActivationLease x = store.acquire(b, c, compute, {});
          store.prefetch({});
          produce(b + 1, c);
        }
      }
      for (int b = 3; b >= 0; --b) {
        for (int c = 0; c < 4; ++c) {
          const ActivationLease x = store.acquire(b, c, compute, {});
          store.prefetch({});
          machine.device().synchronize();
          CHECK(x.x.as<float>()[0] == static_cast<float>(10 * b + c));
          CHECK(x.x.as<float>()[14] == static_cast<float>(10 * b + c));
        }
      }
      if (slots == shape.keys()) CHECK(store.spilled_bytes() + store.loaded_bytes() == 0);
      // Tier 0: with 2 S + 1 slots only backward reads what was spilled, each at most once.
      if (slots == 9) CHECK(store.loaded_bytes() <= 3 * 4 * shape.cell_bytes());
    }
  }
}

TEST_CASE("losses are summed in f64 in token order") {
  LaneMachine machine;
  LossStore losses(4, DType::kF32, machine.arenas());
  Stream& compute = machine.lane(Lane::kCompute);
  double sum = 0;
  {
    LossStore::LossLease lease = losses.acquire(compute);
    machine.kernels().run(compute, Fill{.x = lease.loss, .value = 0.1}, {});
    losses.deliver(std::move(lease), {}, [&](const LossSums& s) { sum = s.loss; });
  }
  machine.device().synchronize();
  const auto tenth = static_cast<double>(0.1f);
  CHECK(sum == tenth + tenth + tenth + tenth);
}

}  // namespace strata::test
