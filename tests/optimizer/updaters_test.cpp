// Tests updaters one by one, without the engine that decides steps: the tests send gradients and
// decisions themselves and compare the state with AdamW in f64, worked out element by element. What
// a step decides is written on the host lane while updates are submitted, as in a run.

#include "strata/optimizer/updater.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/random.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/optimizer/muon_updater.h"
#include "strata/optimizer/optimizer_options.h"
#include "strata/optimizer/shuttle_updater.h"
#include "strata/optimizer/speculative_updater.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

constexpr double kDecay = 0.1;
constexpr std::int64_t kChunk = 704;  // elements of state that travel at once: few for a layer
const BlockId kBlock(2);              // a layer, with norms that do not decay
const UnitId kUnit(2);

enum class Who : std::uint8_t {
  kHost,
  kResident,
  kShuttleOnArrival,
  kShuttleBeforeLoad,
  kSpeculative,
  kMuon  ///< whose numbers muon_test.cpp has
};
/// Those that update by elements.
constexpr std::array kAll = {Who::kHost, Who::kResident, Who::kShuttleOnArrival,
                             Who::kShuttleBeforeLoad, Who::kSpeculative};

/// Which part of the state is updated, and its dtypes; those of moments stand for f64 with f64.
struct Shard {
  int rank = 0;
  int ranks = 1;
  DType dtype = DType::kF64;
  DType moment = DType::kBF16;
  bool groups = false;  ///< tensors have numbers of their own
  OptimizerKind kind = OptimizerKind::kAdamW;
  bool nesterov = false;
};

/// Returns what a rig's updates are told: of groups, whose first entry that matches counts, those
/// that Numbers has.
OptimizerOptions options_of(const Shard& shard) {
  OptimizerOptions options;
  options.kind = shard.kind;
  options.nesterov = shard.nesterov;
  options.weight_decay = kDecay;
  if (!shard.groups) return options;
  options.lr_factors = {"model.layers.1.self_attn.k_proj.weight=0.5", "model.layers.1.*attn.*=3",
                        "*.k_proj.weight=7"};
  options.weight_decays = {"*norm*=0.3", "model.layers.1.mlp.down_proj.weight=0", "*down*=0.7"};
  return options;
}

StateChoices choices_of(Who who, const Shard& shard) {
  const bool shuttles = who == Who::kShuttleOnArrival || who == Who::kShuttleBeforeLoad;
  return {.compute = shard.dtype,
          .moment = shard.moment,
          .moments = moments_of(shard.kind),
          .muon = who == Who::kMuon,
          .rank = shard.rank,
          .ranks = shard.ranks,
          .resident_units = who == Who::kResident ? 5 : 0,
          .interleave = shuttles ? 1.0 : 0.0,
          .timing = who == Who::kSpeculative        ? UpdateTiming::kSpeculative
                    : who == Who::kShuttleOnArrival ? UpdateTiming::kOnArrival
                                                    : UpdateTiming::kBeforeUse,
          .undo_log = kMiB};
}

AdamWScalars numbers(int step, double grad_factor = 1) {
  return {.lr = 0.01,
          .correction1 = 1 - std::pow(0.9, step + 1),
          .correction2 = 1 - std::pow(0.95, step + 1),
          .grad_factor = grad_factor,
          .rounding_seed = static_cast<std::uint64_t>(step)};
}

/// Returns the segment that holds an element of a block, or null for the gaps between segments.
const Segment* segment_of(const Block& block, std::int64_t element) {
  const auto holds = [&](const Segment& s) {
    return element >= s.offset && element < s.offset + s.elements();
  };
  const auto found = std::ranges::find_if(block.segments, holds);
  return found == block.segments.end() ? nullptr : &*found;
}

/// Returns the name of the tensor that holds an element of a segment.
std::string tensor_of(const Segment& segment, std::int64_t element) {
  std::int64_t end = segment.offset;
  for (const SourceTensor& source : segment.sources) {
    end += source.rows * segment.cols;
    if (element < end) return source.name;
  }
  return "";
}

/// What a parameter has beside the numbers of the step.
struct Numbers {
  double lr_factor = 1;
  double decay = 0;
};
Numbers numbers_at(const Block& block, std::int64_t element, bool groups) {
  const Segment* segment = segment_of(block, element);
  if (segment == nullptr) return {};
  if (!groups) return {.decay = segment->decay ? kDecay : 0.0};
  const std::string name = tensor_of(*segment, element);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return {.lr_factor = has("k_proj") ? 0.5 : (has("self_attn") ? 3.0 : 1.0),
          .decay = has("norm") ? 0.3 : (has("down_proj") ? 0.0 : kDecay)};
}

/// The state of a shard in f64, as its optimizer leaves it: AdamW (Loshchilov and Hutter, 2019),
/// Lion (Chen et al., 2023, Algorithm 2) or SGD with momentum (Sutskever et al., 2013).
struct Reference {
  std::vector<double> w, m, v;
  bool groups = false;
  OptimizerKind kind = OptimizerKind::kAdamW;
  bool nesterov = false;

  void update(const Block& block, std::int64_t begin, const std::vector<double>& gradient,
              const AdamWScalars& n) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i] * n.grad_factor;
      const double step = step_of(i, g, n);
      const Numbers own = numbers_at(block, begin + static_cast<std::int64_t>(i), groups);
      w[i] -= n.lr * own.lr_factor * (own.decay * w[i] + step);
    }
  }

 private:
  /// Returns what an element moves by at a learning rate of 1, and updates its moments.
  double step_of(std::size_t i, double g, const AdamWScalars& n) {
    const auto mean = [g](double beta, double moment) { return beta * moment + (1 - beta) * g; };
    switch (kind) {
      case OptimizerKind::kAdamW:
        m[i] = mean(n.beta1, m[i]);
        v[i] = n.beta2 * v[i] + (1 - n.beta2) * g * g;
        return m[i] / n.correction1 / (std::sqrt(v[i] / n.correction2) + n.eps);
      case OptimizerKind::kLion: {
        const double mixed = mean(n.beta1, m[i]);
        m[i] = mean(n.beta2, m[i]);
        return mixed > 0 ? 1 : (mixed < 0 ? -1 : 0);
      }
      case OptimizerKind::kSgd:
      case OptimizerKind::kMuon: break;  // of muon_test.cpp
    }
    m[i] = n.beta1 * m[i] + g;
    return nesterov ? g + n.beta1 * m[i] : m[i];
  }
};

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= largest)) largest = d;  // also if it is NaN
  }
  return largest;
}
constexpr double kRounding = 1e-14;

class Rig {
 public:
  Rig(Who who, const LaneOptions& options, const Shard& shard = {})
      : machine(options),
        state(layout, plan_state(layout, choices_of(who, shard)), machine.arenas()),
        weights(state, *machine.collectives().shard, machine.kernels(), machine.arenas(), 1),
        who_(who),
        rule_(layout, options_of(shard)),
        slots_(machine.arenas(), Space::kDevice, "gradient", 1,
               state.block(kBlock).weight.bytes().bytes),
        scalars_(reinterpret_cast<AdamWScalars*>(
            machine.arenas().allocate(Space::kPinned, "scalars", sizeof(AdamWScalars)))),
        nonfinite_(flag(Space::kPinned)),
        device_nonfinite_(flag(Space::kDevice)),
        updater_(make()) {
    state.initialize(3, 0.5, machine.pool());
    reference.w = state.master(kBlock);
    reference.groups = shard.groups;
    reference.kind = shard.kind;
    reference.nesterov = shard.nesterov;
    reference.m = reference.v = std::vector<double>(reference.w.size(), 0.0);
  }

  /// Makes a step: a gradient comes by the out lane, and the host decides. An early update, if
  /// there is one, was made as if `guess` were decided.
  void step(int number, const AdamWScalars& decided, const AdamWScalars& guess) {
    plan_.step = number;
    Stream& host = machine.lane(Lane::kHost);
    // Loads of the old weights come first.
    for (const Lane reader : {Lane::kWeightsIn, Lane::kCompute}) {
      for (const Lane writer : {Lane::kHost, Lane::kOut}) machine.order(reader, writer);
    }
    const auto writes = [&] {
      Accesses all({}, {{reinterpret_cast<const std::byte*>(scalars_), sizeof(AdamWScalars)}});
      if (const auto own = updater_->numbers()) all.writes.push_back(*own);
      return all;
    };
    host.host_task("expect", writes, {}, [this, guess] { updater_->expect(guess); });
    Arrival arrival = gradient(number);
    const bool early = who_ == Who::kSpeculative;
    if (early) updater_->arrived(kBlock, arrival, std::nullopt, {});
    host.host_task("decide", writes, {}, [this, decided] {
      *scalars_ = decided;
      held_.push_back(updater_->settle(decided));
    });
    const Event event = host.record();
    if (who_ == Who::kShuttleOnArrival) {
      updater_->arrived(kBlock, arrival, event, {});
    } else if (who_ == Who::kShuttleBeforeLoad || who_ == Who::kMuon) {
      updater_->before_load(kBlock, event, {});
    } else {
      updater_->decided(kBlock, arrival, event, {});
    }
    // The next decision overwrites the numbers that updates on the device read.
    machine.order(Lane::kOut, Lane::kHost);
    if (decided.apply == 0) return;
    reference.update(layout.blocks[kBlock], state.block(kBlock).begin, gradient_values(number),
                     decided);
  }
  void step(int number) { step(number, numbers(number), numbers(number)); }

  /// Has compute read a matrix of the block's weights, which are loaded if they are not at home.
  const std::vector<double>& load() {
    weights.begin_pass({kUnit});
    const UnitLease lease = weights.acquire(kUnit, machine.lane(Lane::kCompute), {});
    return machine.read(Lane::kCompute, lease.views.layer[LinearId::kDown]);
  }
  /// Waits, and returns how far weights and moments are from the reference.
  double error() {
    machine.device().synchronize();
    const BlockState& s = state.block(kBlock);
    return std::max({difference(load_as_double(s.weight), reference.w),
                     difference(load_as_double(s.m), reference.m),
                     s.v ? difference(load_as_double(s.v), reference.v) : 0.0});
  }
  /// Returns the same matrix as the reference has it now.
  [[nodiscard]] std::vector<double> expected_load() const {
    const Segment& down = layout.blocks[kBlock].segments.back();
    return {reference.w.begin() + down.offset, reference.w.begin() + down.offset + down.elements()};
  }
  [[nodiscard]] Updater& updater() { return *updater_; }
  /// Returns for each step whether the guess held.
  [[nodiscard]] const std::vector<bool>& held() const { return held_; }
  [[nodiscard]] bool found_nonfinite_on_device() const {
    return *device_nonfinite_.as<std::int32_t>() != 0;
  }

  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  LaneMachine machine;
  TrainingState state;
  WeightStore weights;
  Reference reference;

 private:
  std::unique_ptr<Updater> make() {
    const UpdaterParts parts{.state = state,
                             .weights = weights,
                             .collectives = *machine.collectives().shard,
                             .device = machine.device(),
                             .kernels = machine.kernels(),
                             .host_kernels = machine.kernels(),
                             .rule = rule_,
                             .scalars = scalars_,
                             .nonfinite = nonfinite_,
                             .device_nonfinite = device_nonfinite_,
                             .step = plan_,
                             .judge = judge_,
                             .observers = observers_};
    const StatePlan& plan = state.plan();
    switch (who_) {
      case Who::kHost: return make_host_updater(parts);
      case Who::kResident: return make_resident_updater(parts);
      case Who::kSpeculative: {
        UndoLog log(state, {layout, plan, machine.arenas()}, machine.pool());
        return std::make_unique<SpeculativeUpdater>(parts, std::move(log));
      }
      case Who::kMuon:
        return std::make_unique<MuonUpdater>(
            parts, MuonUpdater::Memory(layout, plan, machine.arenas()), 0.95, machine.pool());
      default: break;
    }
    StateShuttle shuttle(state, {layout, plan, machine.arenas(), kChunk}, machine.device(), kChunk);
    return std::make_unique<ShuttleUpdater>(parts, std::move(shuttle));
  }
  TensorView flag(Space space) {
    const TensorView view = machine.arenas().tensor(space, "nonfinite", DType::kI32, {1});
    *view.as<std::int32_t>() = 0;
    return view;
  }
  [[nodiscard]] std::vector<double> gradient_values(int step) const {
    const BlockState& s = state.block(kBlock);
    std::vector<double> values;
    for (std::int64_t i = s.begin; i < s.begin + s.weight.elements(); ++i) {
      const double value =
          random_normal(7, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i));
      values.push_back(segment_of(layout.blocks[kBlock], i) == nullptr ? 0.0 : value);
    }
    return values;
  }
  /// Has the out lane bring a gradient: to its home on the device, or to a slot that is free again
  /// after the update.
  Arrival gradient(int step) {
    Arrival arrival;
    arrival.block = kBlock;
    TensorView to = state.block(kBlock).grad;
    if (who_ != Who::kMuon && !state.plan(kBlock).updated_on_device()) {
      arrival.slot = slots_.fill(0, step, machine.lane(Lane::kOut));
      to.data = arrival.slot.data();
    }
    arrival.gradient = to;
    machine.write(Lane::kOut, to, gradient_values(step));
    if (arrival.slot) {
      arrival.slot.filled();
      arrival.slot.use(machine.lane(Lane::kHost));
    }
    if (who_ == Who::kMuon) machine.order(Lane::kOut, Lane::kHost);
    return arrival;
  }

  Who who_;
  UpdateRule rule_;
  SlotRing slots_;
  AdamWScalars* scalars_;
  TensorView nonfinite_, device_nonfinite_;
  StepPlan plan_;
  StepJudge judge_{OptimizerOptions{}};     // gives nothing up
  std::vector<UpdateObserver*> observers_;  ///< none: observer_test.cpp has some
  std::vector<bool> held_;
  std::unique_ptr<Updater> updater_;
};

}  // namespace

TEST_CASE("every updater leaves what AdamW leaves, and its weights are what is loaded next") {
  for (const Who who : kAll) {
    for (const LaneOptions& options : all_executions()) {
      INFO("updater " << static_cast<int>(who) << ", seed " << options.seed);
      Rig rig(who, options);
      for (int step = 0; step < 3; ++step) {
        rig.step(step, numbers(step, step == 1 ? 0.3 : 1), numbers(step));
        const std::vector<double>& loaded = rig.load();
        const std::vector<double> expected = rig.expected_load();
        if (step == 1) continue;  // nobody waits between the second step and the third
        CHECK(rig.error() < kRounding);
        CHECK(difference(loaded, expected) < kRounding);
      }
      CHECK(rig.machine.race() == "");
    }
  }
}

TEST_CASE("a rank updates the elements of its own shard, and decays those that are no norms") {
  for (const Who who : kAll) {
    for (const int rank : {0, 1, 2}) {
      INFO("updater " << static_cast<int>(who) << ", rank " << rank);
      Rig rig(who, {.execution = Execution::kShuffled}, {.rank = rank, .ranks = 3});
      for (int step = 0; step < 2; ++step) rig.step(step);
      CHECK(rig.error() < kRounding);
    }
  }
}

TEST_CASE("tensors have the learning rate and the decay of the first entry that matches them") {
  for (const Who who : kAll) {
    for (const int rank : {0, 1, 2}) {
      INFO("updater " << static_cast<int>(who) << ", rank " << rank);
      Rig rig(who, {.execution = Execution::kShuffled}, {.rank = rank, .ranks = 3, .groups = true});
      for (int step = 0; step < 2; ++step) rig.step(step);
      CHECK(rig.error() < kRounding);
    }
  }
}

TEST_CASE("updaters leave what lion and sgd leave, of one moment") {
  const Shard shards[] = {{.rank = 1, .ranks = 3, .kind = OptimizerKind::kLion},
                          {.groups = true, .kind = OptimizerKind::kSgd},
                          {.kind = OptimizerKind::kSgd, .nesterov = true}};
  for (const Who who : kAll) {
    for (const Shard& shard : shards) {
      INFO("updater " << static_cast<int>(who) << ", kind " << static_cast<int>(shard.kind));
      Rig rig(who, {.execution = Execution::kShuffled}, shard);
      for (int step = 0; step < 3; ++step) {
        rig.step(step, numbers(step, step == 1 ? 0.3 : 1), numbers(step));
      }
      CHECK(!rig.state.block(kBlock).v);
      CHECK(rig.error() < kRounding);
    }
  }
}

TEST_CASE("a step that is not applied changes nothing") {
  for (const Who who : kAll) {
    INFO("updater " << static_cast<int>(who));
    Rig rig(who, {.execution = Execution::kShuffled});
    rig.step(0);
    AdamWScalars skipped = numbers(1);
    skipped.apply = 0;
    rig.step(1, skipped, numbers(1));
    CHECK(rig.error() < kRounding);
  }
}

TEST_CASE("an early update stands if the guess held, and is taken back and done again if not") {
  Rig rig(Who::kSpeculative, {.execution = Execution::kShuffled});
  AdamWScalars no = numbers(2);
  no.apply = 0;
  rig.step(0, numbers(0), numbers(0));
  rig.step(1, numbers(1, 0.25), numbers(1));
  rig.step(2, no, numbers(2));
  rig.step(3, numbers(3), no);  // no early update was made
  rig.step(4, no, no);
  CHECK(rig.error() < kRounding);
  CHECK(rig.held() == std::vector<bool>{true, false, false, false, true});
  CHECK(rig.machine.race() == "");
}

TEST_CASE("state in bf16 that travels in chunks has the bits of an update on the host") {
  const DType moment = GENERATE(DType::kBF16, DType::kU8);
  const auto bits_after = [&](Who who) {
    Rig rig(who, {.execution = Execution::kShuffled}, {.dtype = DType::kBF16, .moment = moment});
    for (int step = 0; step < 3; ++step) rig.step(step);
    rig.machine.device().synchronize();
    std::vector<std::byte> all;
    for (const auto tensor : kUpdatedTensors) {
      const ByteRange bytes = (rig.state.block(kBlock).*tensor).bytes();
      all.insert(all.end(), bytes.begin, bytes.begin + bytes.bytes);
    }
    return all;
  };
  const std::vector<std::byte> host = bits_after(Who::kHost);
  CHECK((bits_after(Who::kShuttleOnArrival) == host));
  CHECK((bits_after(Who::kShuttleBeforeLoad) == host));
}

TEST_CASE("weights that are not finite after an update are reported") {
  for (const Who who : kAll) {
    INFO("updater " << static_cast<int>(who));
    Rig rig(who, {});
    AdamWScalars wrong = numbers(4);
    wrong.lr = std::numeric_limits<double>::infinity();
    rig.step(4, wrong, wrong);
    if (who == Who::kHost || who == Who::kSpeculative) {
      CHECK_THROWS_WITH(rig.machine.device().synchronize(),
                        ContainsSubstring("step 5: a weight of layers.1 is not finite"));
    } else {
      rig.machine.device().synchronize();
      CHECK(rig.found_nonfinite_on_device());
    }
  }
}

TEST_CASE("a moment that no row of an updater names is refused") {
  Arrival arrival;
  Rig host(Who::kHost, {});
  CHECK_THROWS_AS(host.updater().before_load(kBlock, {}, {}), std::logic_error);
  Rig resident(Who::kResident, {});
  CHECK_THROWS_AS(resident.updater().before_load(kBlock, {}, {}), std::logic_error);
  Rig shuttle(Who::kShuttleOnArrival, {});
  CHECK_THROWS_AS(shuttle.updater().decided(kBlock, arrival, {}, {}), std::logic_error);
  Rig speculative(Who::kSpeculative, {});
  CHECK_THROWS_AS(speculative.updater().before_load(kBlock, {}, {}), std::logic_error);
  Rig muon(Who::kMuon, {}, {.kind = OptimizerKind::kMuon});
  CHECK_THROWS_AS(muon.updater().decided(kBlock, arrival, {}, {}), std::logic_error);
}

TEST_CASE("a wait between a decision, an update and a load that is left out is found as a race") {
  struct Omitted {
    Who who;
    WaitFor wait;
  };
  std::vector<Omitted> all{{Who::kHost, WaitFor::kUpdated},
                           {Who::kSpeculative, WaitFor::kUpdated},
                           {Who::kResident, WaitFor::kDecided},
                           {Who::kResident, WaitFor::kUpdated}};
  for (const Who who : {Who::kShuttleOnArrival, Who::kShuttleBeforeLoad}) {
    for (const WaitFor wait :
         {WaitFor::kDecided, WaitFor::kFilled, WaitFor::kReuse, WaitFor::kUpdated}) {
      all.push_back({who, wait});
    }
  }
  for (const WaitFor wait : {WaitFor::kFilled, WaitFor::kArrived, WaitFor::kUpdated}) {
    all.push_back({Who::kMuon, wait});
  }
  for (const auto& [who, wait] : all) {
    const auto kind = who == Who::kMuon ? OptimizerKind::kMuon : OptimizerKind::kAdamW;
    Rig rig(who, {.execution = Execution::kEager, .omit_wait = wait}, {.kind = kind});
    for (int step = 0; step < 2; ++step) {
      rig.step(step);
      (void)rig.load();
    }
    INFO("updater " << static_cast<int>(who) << ", left out: " << std::string(name_of(wait)));
    CHECK(rig.machine.race() != "");
  }
}

}  // namespace strata::test
