// Tests the stores one by one on a cpu device: what they hold, what they move and what they refuse,
// against values that the tests write into slots and homes themselves.

#include <cmath>
#include <cstring>
#include <memory>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/ops/backend.h"
#include "strata/store/activation_store.h"
#include "strata/store/gradient_store.h"
#include "strata/store/loss_store.h"
#include "strata/store/memory_plan.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// A cpu machine of one rank, with one arena of each kind.
struct Machine {
  explicit Machine(Execution execution = Execution::kThreads, std::size_t bytes = 256 * kMiB) {
    BackendOptions options;
    options.device.execution = execution;
    options.threads = 1;
    backend = make_backend(BackendKind::kCpu, options);
    collectives = make_group_collectives(groups, *backend.device);
    device_arena = std::make_unique<Arena>(*backend.device, Space::kDevice, bytes, "device");
    pinned = std::make_unique<Arena>(*backend.device, Space::kPinned, bytes, "pinned");
    pageable = std::make_unique<Arena>(*backend.device, Space::kPageable, bytes, "pageable");
    all = std::make_unique<Arenas>(*device_arena, *pinned, *pageable);
  }
  Arenas& arenas() { return *all; }
  Stream& lane(Lane l) { return backend.device->stream(l); }

  std::unique_ptr<Ranks> ranks = make_self_ranks();
  Backend backend;
  RankGroups groups{*ranks, ShardGroup::kAll};
  GroupCollectives collectives;
  std::unique_ptr<Arena> device_arena, pinned, pageable;
  std::unique_ptr<Arenas> all;
};

double mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("initial weights are normal with the deviation asked for, norms are one") {
  Machine machine;
  LlamaConfig m = tiny_model();
  m.vocab_size = 400;
  m.hidden_size = 64;
  const ModelLayout layout = make_layout(spec_of(m));
  TrainingState state(layout, plan_state(layout, {.compute = DType::kF64}), machine.arenas());
  state.initialize(7, 0.02, *machine.backend.pool);
  const std::vector<double> table = state.master(BlockId(0));
  const std::vector<double> used(table.begin(), table.begin() + 400 * 64);
  CHECK(std::abs(std::sqrt(mean_square(used)) - 0.02) < 0.02 * 0.03);
  const std::vector<double> head = state.master(layout.blocks.last());
  for (int i = 0; i < 64; ++i) CHECK(head[static_cast<std::size_t>(i)] == 1.0);
}

TEST_CASE("initial weights do not depend on the number of ranks") {
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  Machine whole;
  TrainingState one(layout, plan_state(layout, {.compute = DType::kBF16}), whole.arenas());
  one.initialize(3, 0.5, *whole.backend.pool);
  for (int rank = 0; rank < 3; ++rank) {
    Machine machine;
    TrainingState part(layout,
                       plan_state(layout, {.compute = DType::kBF16, .rank = rank, .ranks = 3}),
                       machine.arenas());
    part.initialize(3, 0.5, *machine.backend.pool);
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

TEST_CASE("weights arrive on the device and are read again only after an update") {
  Machine machine;
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  TrainingState state(layout, plan_state(layout, {.compute = DType::kF32}), machine.arenas());
  state.initialize(1, 1.0, *machine.backend.pool);
  WeightStore weights(state, *machine.collectives.shard, machine.arenas(), 2);
  Stream& compute = machine.lane(Lane::kCompute);
  const auto load = [&] {
    weights.begin_pass({UnitId(1), UnitId(2), UnitId(3), UnitId(2), UnitId(1)});
    for (const int unit : {1, 2, 3, 2, 1}) {
      const UnitLease lease = weights.acquire(UnitId(unit), compute, {});
      weights.prefetch({});
      machine.backend.device->synchronize();
      const TensorView& home = state.block(BlockId(unit)).weight;
      // A layer's block begins with this segment.
      CHECK(std::memcmp(lease.views.layer[NormId::kAttention].data, home.data,
                        home.bytes().bytes) == 0);
    }
  };
  load();
  const std::size_t layer = state.block(BlockId(1)).weight.bytes().bytes;
  CHECK(weights.loaded_bytes() == 4 * layer);  // 2 and 3 are still there on the way back
  load();
  CHECK(weights.loaded_bytes() == 6 * layer);  // 1 and 2 were still there from the first time
  state.block(BlockId(2)).weight.as<float>()[0] += 1.0f;
  weights.updated(BlockId(2), {});
  load();
  CHECK(weights.loaded_bytes() >= 8 * layer);
}

TEST_CASE("gradients are summed over passes and rounded once, at the end") {
  Machine machine;
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  const StateChoices options{.compute = DType::kF32, .gradient = DType::kBF16, .passes = 3};
  TrainingState state(layout, plan_state(layout, options), machine.arenas());
  Kernels& kernels = *machine.backend.kernels;
  GradientStore gradients(state, machine.collectives, kernels, kernels, machine.arenas(), 1);
  Stream& compute = machine.lane(Lane::kCompute);
  const std::int64_t n = layout.blocks[BlockId(2)].elements;
  gradients.begin_step();
  const double parts[] = {1.0, 0x1.0p-9, 0x1.0p-9};  // bf16 keeps neither part alone beside 1
  for (int pass = 0; pass < 3; ++pass) {
    GradientLease lease = gradients.acquire(UnitId(2), compute, {});
    kernels.run(
        compute,
        Fill{.x = TensorView(lease.leases[0].data(), DType::kF32, Shape{n}), .value = parts[pass]},
        {});
    const std::vector<Arrival> arrivals = gradients.offload(std::move(lease), {});
    CHECK(arrivals.size() == (pass == 2 ? 1u : 0u));
  }
  machine.backend.device->synchronize();
  const std::vector<double> home = load_as_double(state.block(BlockId(2)).grad);
  // 1 + 2^-8 is a tie between 1 and 1 + 2^-7 in bf16 (7 bits): even is 1.
  CHECK(home[0] == static_cast<double>(static_cast<float>(Bf16(1.0f + 0x1.0p-8f))));
  CHECK(home[static_cast<std::size_t>(n - 1)] == home[0]);
}

TEST_CASE("a gradient has a slot of the ring until its arrival is let go") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Machine machine;
    const ModelLayout layout = make_layout(spec_of(tiny_model()));
    const StateChoices options{.compute = DType::kF32, .gradient = dtype, .gradient_ring = 2};
    TrainingState state(layout, plan_state(layout, options), machine.arenas());
    Kernels& kernels = *machine.backend.kernels;
    GradientStore gradients(state, machine.collectives, kernels, kernels, machine.arenas(), 1);
    gradients.begin_step();
    const auto send = [&](int unit) {
      Stream& compute = machine.lane(Lane::kCompute);
      GradientLease lease = gradients.acquire(UnitId(unit), compute, {});
      const std::int64_t n = layout.blocks[BlockId(unit)].elements;
      const TensorView all(lease.leases[0].data(), DType::kF32, Shape{n});
      kernels.run(compute, Fill{.x = all, .value = static_cast<double>(unit)}, {});
      std::vector<Arrival> arrivals = gradients.offload(std::move(lease), {});
      REQUIRE(arrivals.size() == 1);
      return std::move(arrivals.front());
    };
    const auto values = [&](const Arrival& arrival) {
      machine.backend.device->synchronize();
      CHECK(arrival.gradient.dtype == dtype);
      return load_as_double(arrival.gradient);
    };
    const Arrival head = send(layout.head().value());
    CHECK(!head.slot);  // it has a home
    CHECK(head.gradient.data == state.block(layout.blocks.last()).grad.data);
    Arrival third = send(3);
    const Arrival second = send(2);
    CHECK(!state.block(BlockId(2)).grad);
    CHECK_THROWS_AS(send(1), std::logic_error);
    CHECK(values(third).front() == 3);
    CHECK(values(second).back() == 2);
    const void* freed = third.gradient.data;
    third.slot.end();
    gradients.begin_step();
    const Arrival again = send(1);
    CHECK(again.gradient.data == freed);
    CHECK(values(again).back() == 1);
    CHECK(values(second).front() == 2);
    CHECK(values(head).front() == layout.head().value());
  }
}

TEST_CASE("one pass of bf16 gradients arrives rounded to nearest even") {
  Machine machine;
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  TrainingState state(layout,
                      plan_state(layout, {.compute = DType::kF32, .gradient = DType::kBF16}),
                      machine.arenas());
  Kernels& kernels = *machine.backend.kernels;
  GradientStore gradients(state, machine.collectives, kernels, kernels, machine.arenas(), 2);
  Stream& compute = machine.lane(Lane::kCompute);
  gradients.begin_step();
  GradientLease lease = gradients.acquire(UnitId(1), compute, {});
  const std::int64_t n = layout.blocks[BlockId(1)].elements;
  kernels.run(
      compute,
      Fill{.x = TensorView(lease.leases[0].data(), DType::kF32, Shape{n}), .value = 1.01171875},
      {});
  const std::vector<Arrival> arrivals = gradients.offload(std::move(lease), {});
  CHECK(arrivals.size() == 1);
  machine.backend.device->synchronize();
  CHECK(state.block(BlockId(1)).grad.dtype == DType::kBF16);
  CHECK(load_as_double(state.block(BlockId(1)).grad)[0] ==
        1.015625);  // a tie: 1 + 1.5/128 -> 1 + 2/128
}

TEST_CASE("a gradient that comes in one piece brings its squared norms, chunks or not") {
  LlamaConfig m = tiny_model();
  m.num_hidden_layers = 1;
  const LlamaConfig small = m;
  m.intermediate_size = 280'001;  // 16.8M elements of bf16 and a bit: more than one chunk
  for (const LlamaConfig& model : {small, m}) {
    const ModelLayout layout = make_layout(spec_of(model));
    const auto n = static_cast<std::size_t>(layout.blocks[BlockId(1)].elements);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Machine machine;
      INFO(n << " elements of " << std::string(name_of(dtype)));
      TrainingState state(layout, plan_state(layout, {.compute = DType::kF32, .gradient = dtype}),
                          machine.arenas());
      Kernels& kernels = *machine.backend.kernels;
      GradientStore gradients(state, machine.collectives, kernels, kernels, machine.arenas(), 1);
      gradients.begin_step();
      GradientLease lease = gradients.acquire(UnitId(1), machine.lane(Lane::kCompute), {});
      machine.backend.device->synchronize();
      std::vector<double> squares;
      for (std::size_t i = 0; i < n; ++i) {
        const float value = std::sin(static_cast<float>(i));
        reinterpret_cast<float*>(lease.leases[0].data())[i] = value;
        const double rounded = dtype == DType::kF32
                                   ? static_cast<double>(value)
                                   : static_cast<double>(static_cast<float>(Bf16(value)));
        if (i % 4096 == 0) squares.push_back(0);
        squares.back() += rounded * rounded;
      }
      const std::vector<Arrival> arrivals = gradients.offload(std::move(lease), {});
      machine.backend.device->synchronize();
      REQUIRE(arrivals.size() == 1);
      CHECK(load_as_double(arrivals[0].norms) == squares);
    }
  }
}

TEST_CASE("spilled activations come back as they were, whatever the ring") {
  const ActivationShape shape{
      .layers = 3, .cells = 4, .cell_tokens = 5, .hidden = 3, .dtype = DType::kF32};
  for (const int slots : {2, 3, 5, 9, shape.keys()}) {
    for (const Execution execution : {Execution::kEager, Execution::kThreads}) {
      Machine machine(execution);
      Kernels& kernels = *machine.backend.kernels;
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
          machine.backend.device->synchronize();
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
  Machine machine;
  LossStore losses(4, DType::kF32, machine.arenas());
  Stream& compute = machine.lane(Lane::kCompute);
  double sum = 0;
  {
    LossStore::LossLease lease = losses.acquire(compute);
    machine.backend.kernels->run(compute, Fill{.x = lease.loss, .value = 0.1}, {});
    losses.deliver(std::move(lease), {}, [&](double s) { sum = s; });
  }
  machine.backend.device->synchronize();
  const auto tenth = static_cast<double>(0.1f);
  CHECK(sum == tenth + tenth + tenth + tenth);
}

}  // namespace strata::test
