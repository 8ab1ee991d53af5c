// Tests the way of weights from their homes to the views that the compute lane reads, against the
// numbers that the tests put into the homes: every element says its block, its place there, and the
// update that wrote it.

#include "strata/store/weight_store.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// A tied model: its head reads two blocks.
ModelLayout tied_layout() {
  LlamaConfig model = tiny_model();
  model.tie_word_embeddings = true;
  return make_layout(spec_of(model));
}

/// The units of a pass forward and backward.
const std::vector<UnitId> kPass{UnitId(0), UnitId(1), UnitId(2), UnitId(3),
                                UnitId(4), UnitId(3), UnitId(2), UnitId(1)};

/// The numbers of elements from `first` on of a block, after so many updates.
std::vector<double> numbers(BlockId block, std::int64_t first, std::int64_t count, int updates) {
  std::vector<double> all;
  for (std::int64_t i = first; i < first + count; ++i) {
    all.push_back(static_cast<double>(100'000 * updates + 10'000 * block.value() + i));
  }
  return all;
}

class WeightRig {
 public:
  WeightRig(const LaneOptions& options, Ranks& ranks, int slots, int resident_units = 0,
            bool embedding_at_home = false)
      : machine(options, ranks),
        state(layout, plan(ranks, resident_units, embedding_at_home), machine.arenas()),
        weights(state, *machine.collectives().shard, machine.kernels(), machine.arenas(), slots) {
    for (const BlockId b : state.ids()) update(b, 0);
  }

  /// Updates a block on the host lane, when all that read its old weights has been submitted.
  void update(BlockId block, int updates) {
    for (const Lane reader : {Lane::kWeightsIn, Lane::kCompute}) machine.order(reader, Lane::kHost);
    const BlockState& s = state.block(block);
    machine.write(Lane::kHost, s.weight, numbers(block, s.begin, s.weight.elements(), updates));
    weights.updated(block, machine.lane(Lane::kHost).record());
    updates_[block] = updates;
  }
  /// Acquires the units of a pass one after the other, and has compute read all weights of each.
  void pass(const std::vector<UnitId>& units = kPass) {
    weights.begin_pass(units);
    for (const UnitId unit : units) {
      const UnitLease lease = weights.acquire(unit, machine.lane(Lane::kCompute), {});
      weights.prefetch({});
      read(unit, lease.views);
    }
  }
  /// Waits, and returns how many tensors were not what they should be.
  int wrong_reads() {
    machine.device().synchronize();
    int wrong = 0;
    for (const Reading& r : readings_) wrong += *r.values == r.expected ? 0 : 1;
    return wrong;
  }
  [[nodiscard]] std::size_t shard_bytes(int block) const {
    return ConstTensorView(state.block(BlockId(block)).weight).bytes().bytes;
  }

  const ModelLayout layout = tied_layout();
  LaneMachine machine;
  TrainingState state;
  WeightStore weights;

 private:
  struct Reading {
    const std::vector<double>* values;
    std::vector<double> expected;
  };

  StatePlan plan(Ranks& ranks, int resident_units, bool embedding_at_home) const {
    StatePlan plan = plan_state(layout, {.compute = DType::kF32,
                                         .rank = ranks.rank(),
                                         .ranks = ranks.size(),
                                         .resident_units = resident_units});
    plan.embedding_at_home = embedding_at_home;
    return plan;
  }

  void read(UnitId unit, const UnitWeights& views) {
    const LayerWeights& w = views.layer;
    std::vector<ConstTensorView> own{views.embedding.table};
    if (layout.units[unit].kind == UnitKind::kLayer) {
      own = {w[NormId::kAttention], w[LinearId::kQkv],    w[LinearId::kAttentionOut],
             w[NormId::kMlp],       w[LinearId::kGateUp], w[LinearId::kDown]};
    } else if (layout.units[unit].kind == UnitKind::kHead) {
      own = {views.head.norm};
      read_segment(BlockId(0), 0, views.head.projection);
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      read_segment(layout.units[unit].blocks.front(), i, own[i]);
    }
  }
  void read_segment(BlockId block, std::size_t segment, const ConstTensorView& view) {
    const Segment& of = layout.blocks[block].segments.at(segment);
    readings_.push_back({.values = &machine.read(Lane::kCompute, view),
                         .expected = numbers(block, of.offset, of.elements(), updates_[block])});
  }

  PerBlock<int> updates_ = PerBlock<int>(layout.blocks.size());
  std::vector<Reading> readings_;
};

/// Writes a number into the first weight of each block that is about to be loaded, on the host
/// lane.
class Writer final : public LoadObserver {
 public:
  Writer(TrainingState& state, WeightStore& weights, Stream& host)
      : state_(state), weights_(weights), host_(host) {}

  void before_load(BlockId block) override {
    blocks.push_back(block.value());
    turns.push_back(weights_.turn().ticket);
    host_.host_task("write", {}, {}, [this, block] {
      state_.block(block).weight.as<float>()[0] = written(block.value());
    });
    weights_.updated(block, host_.record());
  }
  static float written(int block) { return static_cast<float>(100 + block); }

  std::vector<int> blocks;           ///< of the loads so far
  std::vector<std::uint64_t> turns;  ///< tickets of the events at which their turns come

 private:
  TrainingState& state_;
  WeightStore& weights_;
  Stream& host_;
};

}  // namespace

TEST_CASE("every unit is read with the weights of its home, however few slots layers have") {
  for (const LaneOptions& options : all_executions()) {
    for (const int slots : {1, 2, 3}) {
      const auto self = make_self_ranks();
      WeightRig rig(options, *self, slots);
      rig.pass();
      rig.pass();
      CHECK(rig.wrong_reads() == 0);
      CHECK(rig.machine.race() == "");
    }
  }
}

TEST_CASE("ranks have whole units, each shard from the rank that holds it") {
  for (const LaneOptions& options : all_executions()) {
    for (const int ranks : {2, 3}) {
      std::vector<int> wrong(static_cast<std::size_t>(ranks));
      std::vector<std::string> races(wrong.size());
      std::size_t loaded = 0;
      std::size_t expected = 0;
      run_ranks(ranks, [&](Ranks& group) {
        const auto rank = static_cast<std::size_t>(group.rank());
        WeightRig rig(options, group, 2, 2);
        rig.pass();
        wrong[rank] = rig.wrong_reads();
        races[rank] = rig.machine.race();
        if (rank > 0) return;
        loaded = rig.weights.loaded_bytes();
        expected = rig.shard_bytes(2) + rig.shard_bytes(3) + rig.shard_bytes(4);
      });
      for (const int count : wrong) CHECK(count == 0);
      for (const std::string& race : races) CHECK(race == "");
      CHECK(loaded == expected);  // blocks 0 and 1 live on the device: they cross no link
    }
  }
}

TEST_CASE("weights that are updated are read after the update, from slots and where they live") {
  for (const LaneOptions& options : all_executions()) {
    const auto self = make_self_ranks();
    WeightRig rig(options, *self, 3, 2);
    for (int updates = 1; updates <= 3; ++updates) {
      rig.pass();
      // Some slots keep what they hold.
      for (const BlockId b : rig.state.ids()) {
        if (b.value() % 2 == updates % 2) rig.update(b, updates);
      }
    }
    rig.pass();
    CHECK(rig.wrong_reads() == 0);
    CHECK(rig.machine.race() == "");
  }
}

TEST_CASE("what is still on the device is loaded again only after an update") {
  const auto self = make_self_ranks();
  WeightRig rig({}, *self, 2);
  const std::vector<UnitId> layers{UnitId(1), UnitId(2), UnitId(3), UnitId(2), UnitId(1)};
  const std::size_t layer = rig.shard_bytes(1);
  rig.pass(layers);
  CHECK(rig.weights.loaded_bytes() == 4 * layer);  // 2 and 3 are still there on the way back
  rig.pass(layers);
  CHECK(rig.weights.loaded_bytes() == 6 * layer);  // 1 and 2 were still there from the first pass
  rig.update(BlockId(2), 1);
  rig.pass(layers);
  CHECK(rig.weights.loaded_bytes() == 9 * layer);  // 2, 3 and one that 3 took the place of
  CHECK(rig.wrong_reads() == 0);
}

TEST_CASE("weights that live on the device, and an embedding that is read at home, take no slot") {
  const auto self = make_self_ranks();
  WeightRig resident({}, *self, 2, 5);
  resident.pass();
  CHECK(resident.wrong_reads() == 0);
  CHECK(resident.weights.loaded_bytes() == 0);
  WeightRig at_home({}, *self, 2, 0, true);
  at_home.weights.begin_pass({UnitId(0)});
  const UnitLease lease =
      at_home.weights.acquire(UnitId(0), at_home.machine.lane(Lane::kCompute), {});
  CHECK(!lease.lease);
  CHECK(lease.views.embedding.table.data == at_home.state.block(BlockId(0)).weight.data);
}

TEST_CASE("a load is told of beforehand, and reads what an update that is submitted then writes") {
  LaneMachine machine;
  LlamaConfig model = tiny_model();
  constexpr int kLayers = WeightStore::kUpdateLead + 2;
  model.num_hidden_layers = kLayers;
  const ModelLayout layout = make_layout(spec_of(model));
  TrainingState state(layout, plan_state(layout, {.compute = DType::kF32}), machine.arenas());
  state.initialize(1, 1.0, machine.pool());
  WeightStore weights(state, *machine.collectives().shard, machine.kernels(), machine.arenas(), 2);
  Writer writer(state, weights, machine.lane(Lane::kHost));
  weights.observe(writer);
  CHECK_THROWS_AS(weights.observe(writer), std::logic_error);

  std::vector<UnitId> units;
  std::vector<int> order;
  for (int unit = 1; unit <= kLayers; ++unit) {
    units.emplace_back(unit);
    order.push_back(unit);
  }
  weights.begin_pass(units);
  std::vector<std::uint64_t> ends;  // of the loads so far, on weights_in
  for (const UnitId unit : units) {
    const UnitLease lease = weights.acquire(unit, machine.lane(Lane::kCompute), {});
    ends.push_back(machine.lane(Lane::kWeightsIn).record().ticket);
    machine.device().synchronize();
    CHECK(static_cast<const float*>(lease.views.layer[NormId::kAttention].data)[0] ==
          Writer::written(unit.value()));
  }
  CHECK(writer.blocks == order);
  // A turn is the end of the load kUpdateLead before the one that is told of.
  for (std::size_t i = 0; i < writer.turns.size(); ++i) {
    const bool early = i < WeightStore::kUpdateLead;
    CHECK(writer.turns[i] == (early ? 0 : ends[i - WeightStore::kUpdateLead]));
  }
}

TEST_CASE("a unit out of turn is refused, and one for which no slot is free") {
  const auto self = make_self_ranks();
  WeightRig rig({}, *self, 1);
  Stream& compute = rig.machine.lane(Lane::kCompute);
  rig.weights.begin_pass({UnitId(1), UnitId(2)});
  const UnitLease first = rig.weights.acquire(UnitId(1), compute, {});
  CHECK_THROWS_AS(rig.weights.acquire(UnitId(1), compute, {}), std::logic_error);
  CHECK_THROWS_AS(rig.weights.acquire(UnitId(2), compute, {}), std::logic_error);
}

TEST_CASE("a wait on the way of weights that is left out is found as a race") {
  for (const WaitFor wait : {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kUpdated}) {
    const auto self = make_self_ranks();
    WeightRig rig({.execution = Execution::kEager, .omit_wait = wait}, *self, 1);
    rig.pass();
    INFO("left out: " << std::string(name_of(wait)));
    CHECK(rig.machine.race() != "");
  }
  std::string race;
  run_ranks(2, [&](Ranks& group) {
    WeightRig rig({.omit_wait = WaitFor::kGathered}, group, 2);
    rig.pass();
    rig.machine.device().synchronize();
    if (group.rank() == 0) race = rig.machine.race();
  });
  CHECK(race != "");
}

}  // namespace strata::test
