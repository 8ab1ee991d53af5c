// Tests the way of gradients from accumulators to what the optimizer reads. The tests add small
// whole numbers to the accumulators, of which every dtype holds the sums exactly, and compare with
// sums that they take themselves.

#include "strata/store/gradient_store.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// Says which gradient a unit adds to one of its blocks.
struct Source {
  int step = 0;
  int pass = 0;
  int unit = 0;
  int rank = 0;  ///< of all ranks
};

double addend(BlockId block, std::int64_t element, const Source& s) {
  const std::int64_t mixed =
      element * 7 + block.value() * 3 + s.unit * 5 + s.pass * 11 + s.rank * 13 + s.step;
  return static_cast<double>(mixed % 17 - 8);
}

constexpr std::size_t kRun = 4096;

/// Returns the sums of squares of runs of kRun elements.
std::vector<double> squares(const std::vector<double>& values) {
  std::vector<double> sums((values.size() + kRun - 1) / kRun, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i / kRun] += values[i] * values[i];
  return sums;
}

struct Case {
  std::string name;
  StateChoices choices{};
  bool tied = true;
  int ranks = 1;
  int on_host = 0;  ///< ranks of a host, each of which is a replica; 0: all are on one
};

class GradientRig {
 public:
  GradientRig(const LaneOptions& options, const Case& c, Ranks& ranks)
      : layout(layout_of(c)),
        machine(options, ranks, c.on_host > 0 ? ShardGroup::kNode : ShardGroup::kAll),
        state(layout, plan_of(c), machine.arenas()),
        gradients(state, machine.collectives(), machine.kernels(), machine.kernels(),
                  machine.arenas(), 1),
        case_(c),
        rank_(ranks.rank()) {}

  /// Has compute add to the accumulators of a unit, and offloads them.
  std::vector<Arrival> send(const Source& source) {
    const UnitId unit(source.unit);
    GradientLease lease = gradients.acquire(unit, machine.lane(Lane::kCompute), {});
    const std::vector<BlockId>& blocks = layout.units[unit].blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) add(lease.leases[i], blocks[i], source);
    return gradients.offload(std::move(lease), {});
  }
  /// Makes a step: a backward through all units in each pass. Every gradient that arrives is read
  /// on the lane of its updater and then given back.
  void step(int number) {
    machine.order(Lane::kHost, Lane::kOut);  // which has read what homes hold
    gradients.begin_step();
    for (int pass = 0; pass < case_.choices.passes; ++pass) {
      for (int unit = layout.head().value(); unit >= 0; --unit) {
        for (Arrival& arrival : send({number, pass, unit, rank_})) receive(number, arrival);
      }
    }
  }
  /// Waits, and returns what was wrong, or "".
  std::string fault(int steps) {
    machine.device().synchronize();
    std::string text;
    for (int number = 0; number < steps; ++number) {
      for (const BlockId b : state.ids()) {
        const auto came = arrived_.find({number, b});
        if (came == arrived_.end()) {
          text += " block " + std::to_string(b.value()) + " did not arrive,";
          continue;
        }
        const std::vector<double> expected = sum(number, b);
        if (*came->second.values != expected) text += " wrong " + std::to_string(b.value()) + ",";
        const std::vector<double>* norms = came->second.norms;
        if (norms != nullptr && *norms != squares(expected)) text += " wrong norms,";
      }
    }
    return text;
  }
  [[nodiscard]] int arrivals() const { return arrivals_; }

  const ModelLayout layout;
  LaneMachine machine;
  TrainingState state;
  GradientStore gradients;

 private:
  struct Arrived {
    const std::vector<double>* values = nullptr;
    const std::vector<double>* norms = nullptr;
  };

  static ModelLayout layout_of(const Case& c) {
    LlamaConfig model = tiny_model();
    model.tie_word_embeddings = c.tied;
    model.intermediate_size = 80;  // a layer's gradient has two partial sums of squares
    return make_layout(spec_of(model));
  }
  [[nodiscard]] StatePlan plan_of(const Case& c) const {
    StateChoices choices = c.choices;
    const GroupPlace& place = machine.place();
    choices.rank = place.rank;
    choices.ranks = place.ranks;
    choices.replica = place.replica;
    choices.replicas = place.replicas;
    return plan_state(layout, choices);
  }
  void add(const Lease& lease, BlockId block, const Source& source) {
    const TensorView all(lease.data(), DType::kF32, Shape{layout.blocks[block].elements});
    machine.lane(Lane::kCompute)
        .host_task(
            "add", [&] { return Accesses({all.bytes()}, {all.bytes()}); }, {.phase = "test"},
            [all, block, source] {
              for (std::int64_t i = 0; i < all.elements(); ++i) {
                all.as<float>()[i] += static_cast<float>(addend(block, i, source));
              }
            });
  }
  void receive(int step, Arrival& arrival) {
    ++arrivals_;
    const bool on_device = state.plan(arrival.block).updated_on_device();
    const Lane reader = on_device ? Lane::kOut : Lane::kHost;
    Arrived& arrived = arrived_[{step, arrival.block}];
    machine.lane(reader).wait(arrival.event, WaitFor::kArrived);
    if (arrival.slot) arrival.slot.use(machine.lane(reader));
    arrived.values = &machine.read(reader, arrival.gradient);
    arrival.slot.end();
    if (arrival.norms) {
      arrival.norms_lease.use(machine.lane(Lane::kHost));
      arrived.norms = &machine.read(Lane::kHost, arrival.norms);
    }
  }
  /// Returns this rank's shard of what all ranks, passes and units add to a block in a step.
  [[nodiscard]] std::vector<double> sum(int step, BlockId block) const {
    const BlockState& s = state.block(block);
    std::vector<double> total(static_cast<std::size_t>(s.weight.elements()), 0.0);
    for (const UnitId unit : layout.units.ids()) {
      const std::vector<BlockId>& blocks = layout.units[unit].blocks;
      if (std::ranges::find(blocks, block) == blocks.end()) continue;
      for (int pass = 0; pass < case_.choices.passes; ++pass) {
        for (int rank = 0; rank < case_.ranks; ++rank) {
          for (std::size_t i = 0; i < total.size(); ++i) {
            const std::int64_t element = s.begin + static_cast<std::int64_t>(i);
            if (element >= layout.blocks[block].elements) continue;  // padding
            total[i] += addend(block, element, {step, pass, unit.value(), rank});
          }
        }
      }
    }
    return total;
  }

  Case case_;
  int rank_;
  std::map<std::pair<int, BlockId>, Arrived> arrived_;
  int arrivals_ = 0;
};

/// Contributions are summed on the device, on the host, or nowhere; gradients come to homes, to a
/// ring or to the passing place; on one rank, on ranks that share a state, and on replicas.
std::vector<Case> cases() {
  const StateChoices f32{.compute = DType::kF32, .gradient = DType::kF32, .passes = 2};
  const auto with = [&](auto change) {
    StateChoices choices = f32;
    change(choices);
    return choices;
  };
  const StateChoices device = with([](StateChoices& c) { c.device_sums = 5; });
  const StateChoices rounded = with([](StateChoices& c) { c.gradient = DType::kBF16; });
  const StateChoices single = with([](StateChoices& c) { c.passes = 1; });
  const StateChoices ring = with([](StateChoices& c) {
    c.passes = 1;
    c.gradient = DType::kBF16;
    c.gradient_ring = 1;
    c.resident_units = 2;
  });
  const StateChoices both = with([](StateChoices& c) {
    c.gradient = DType::kBF16;
    c.device_sums = 2;
  });
  const StateChoices resident = with([](StateChoices& c) { c.resident_units = 5; });
  return {{.name = "summed on the host", .choices = f32},
          {.name = "summed on the device", .choices = device},
          {.name = "summed on both and rounded", .choices = both},
          {.name = "summed on the host and rounded", .choices = rounded},
          {.name = "resident", .choices = resident},
          {.name = "one contribution", .choices = single, .tied = false},
          {.name = "a ring and a passing place", .choices = ring, .tied = false},
          {.name = "two ranks, summed on the host", .choices = f32, .ranks = 2},
          {.name = "three ranks, summed on the device", .choices = device, .ranks = 3},
          {.name = "two ranks with a ring", .choices = ring, .tied = false, .ranks = 2},
          {.name = "replicas, summed on the host", .choices = f32, .ranks = 2, .on_host = 1},
          {.name = "replicas, summed on the device", .choices = device, .ranks = 2, .on_host = 1},
          {.name = "replicas of shards", .choices = both, .ranks = 4, .on_host = 2}};
}

}  // namespace

TEST_CASE("each gradient arrives once a step, as the sum of all that ranks and passes added") {
  constexpr int kSteps = 2;
  for (const Case& c : cases()) {
    for (const LaneOptions& options : all_executions()) {
      constexpr std::uint64_t kSeeds = 2;  // a few for each of many cases
      if (options.seed > (c.ranks > 1 ? 1 : kSeeds)) continue;
      INFO(c.name << ", seed " << options.seed);
      std::vector<std::string> faults(static_cast<std::size_t>(c.ranks));
      run_ranks(
          c.ranks,
          [&](Ranks& group) {
            GradientRig rig(options, c, group);
            for (int step = 0; step < kSteps; ++step) rig.step(step);
            std::string& text = faults[static_cast<std::size_t>(group.rank())];
            text = rig.fault(kSteps) + rig.machine.race();
            if (rig.arrivals() != kSteps * static_cast<int>(rig.state.blocks())) {
              text += " arrivals: " + std::to_string(rig.arrivals());
            }
          },
          c.on_host);
      for (const std::string& text : faults) CHECK(text == "");
    }
  }
}

TEST_CASE("sums over passes are rounded once, at the end, on the host and on the device") {
  for (const int device_sums : {0, 5}) {
    const auto self = make_self_ranks();
    const LaneOptions options{.execution = Execution::kShuffled};
    GradientRig rig(options,
                    {.name = "",
                     .choices = {.compute = DType::kF32,
                                 .gradient = DType::kBF16,
                                 .passes = 3,
                                 .device_sums = device_sums},
                     .tied = false},
                    *self);
    const BlockId block(2);
    std::vector<Arrival> arrivals;
    // The last place of bf16 is 2^-7 here: it keeps neither part alone beside 1, but both together.
    for (const double part : {1.0, 0x1p-8, 0x1p-9}) {
      CHECK(arrivals.empty());
      GradientLease lease = rig.gradients.acquire(UnitId(2), rig.machine.lane(Lane::kCompute), {});
      const std::int64_t n = rig.layout.blocks[block].elements;
      rig.machine.write(Lane::kCompute, {lease.leases[0].data(), DType::kF32, Shape{n}},
                        std::vector<double>(static_cast<std::size_t>(n), part));
      arrivals = rig.gradients.offload(std::move(lease), {});
    }
    REQUIRE(arrivals.size() == 1);
    rig.machine.device().synchronize();
    const std::vector<double> values = load_as_double(arrivals.front().gradient);
    CHECK(std::ranges::all_of(values, [](double value) { return value == 1 + 0x1p-7; }));
  }
}

TEST_CASE(
    "a gradient is refused while every slot of the ring is in use, and then takes a free one") {
  const auto self = make_self_ranks();
  GradientRig rig({},
                  {.name = "",
                   .choices = {.compute = DType::kF32, .gradient = DType::kF32, .gradient_ring = 2},
                   .tied = false},
                  *self);
  const auto send = [&](int unit) { return std::move(rig.send({.unit = unit}).at(0)); };
  rig.gradients.begin_step();
  Arrival third = send(3);
  const Arrival second = send(2);
  CHECK_THROWS_AS(send(1), std::logic_error);
  const void* freed = third.gradient.data;
  third.slot.end();
  rig.gradients.begin_step();
  CHECK(send(1).gradient.data == freed);
  CHECK(!send(4).slot);  // the head has a home
}

TEST_CASE("a gradient that comes in one piece brings its squared norms, chunks or not") {
  LlamaConfig model = tiny_model();
  model.num_hidden_layers = 1;
  for (const std::int64_t inner : {27, 280'001}) {  // the larger one makes more than one chunk
    model.intermediate_size = inner;
    const ModelLayout layout = make_layout(spec_of(model));
    const BlockId block(1);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(layout.blocks[block].elements << " elements of " << std::string(name_of(dtype)));
      LaneMachine machine({.arena_bytes = 256 * kMiB});
      TrainingState state(layout, plan_state(layout, {.compute = DType::kF32, .gradient = dtype}),
                          machine.arenas());
      GradientStore gradients(state, machine.collectives(), machine.kernels(), machine.kernels(),
                              machine.arenas(), 1);
      gradients.begin_step();
      GradientLease lease = gradients.acquire(UnitId(1), machine.lane(Lane::kCompute), {});
      machine.device().synchronize();
      const auto elements = static_cast<std::size_t>(layout.blocks[block].elements);
      std::vector<double> expected((elements + kRun - 1) / kRun, 0.0);
      auto* const sums = reinterpret_cast<float*>(lease.leases[0].data());
      for (std::size_t i = 0; i < elements; ++i) {
        const float sum = static_cast<float>(i * 7919 % 100'003) - 50'000;
        const auto kept =
            static_cast<double>(dtype == DType::kF32 ? sum : static_cast<float>(Bf16(sum)));
        sums[i] = sum;
        expected[i / kRun] += kept * kept;
      }
      const std::vector<Arrival> arrivals = gradients.offload(std::move(lease), {});
      machine.device().synchronize();
      REQUIRE(arrivals.size() == 1);
      CHECK((load_as_double(arrivals[0].norms) == expected));
    }
  }
}

TEST_CASE("a wait on the way of gradients that is left out is found as a race") {
  const std::vector<Case> all = cases();
  struct Omitted {
    WaitFor wait;
    std::string name;
  };
  for (const Omitted& left_out : {Omitted{WaitFor::kFilled, "summed on the host"},
                                  Omitted{WaitFor::kReuse, "one contribution"},
                                  Omitted{WaitFor::kTaken, "a ring and a passing place"},
                                  Omitted{WaitFor::kGathered, "three ranks, summed on the device"},
                                  Omitted{WaitFor::kGathered, "replicas, summed on the host"}}) {
    const Case& c = *std::ranges::find(all, left_out.name, &Case::name);
    INFO("left out: " << std::string(name_of(left_out.wait)) << ", " << left_out.name);
    std::string race;
    run_ranks(
        c.ranks,
        [&](Ranks& group) {
          GradientRig rig({.omit_wait = left_out.wait}, c, group);
          rig.step(0);
          rig.step(1);
          rig.machine.device().synchronize();
          if (group.rank() == 0) race = rig.machine.race();
        },
        c.on_host);
    CHECK(race != "");
  }
}

}  // namespace strata::test
