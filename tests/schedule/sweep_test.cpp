// Tests sweeps by the scores of tokens that come a few at a time, which are compared with a forward
// of the whole sequence in f64 that is written out here, and by the order of the work in the trace.

#include "strata/schedule/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/engine/generation_engine.h"
#include "strata/op_checks/fp8_reference.h"
#include "strata/plan/generation_setup.h"
#include "strata/schedule/sweep_writer.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

using Vector = std::vector<double>;

// The attention of the model.
constexpr std::size_t kHeads = 4;
constexpr std::size_t kKvHeads = 2;
constexpr std::size_t kHeadSize = 6;

/// tiny_model() with more layers than their weights have slots.
LlamaConfig deep_model() {
  LlamaConfig model = tiny_model();
  model.num_hidden_layers = 5;
  return model;
}

constexpr int kLastLayer = 5;  // as a unit
constexpr int kHead = 6;

/// The model's forward as its formulas have it, for one sequence: no cache, no cells, one token
/// after the other.
class PlainForward {
 public:
  /// Operands of the products of layers are rounded to e4m3 if `rounds`.
  PlainForward(const LlamaConfig& model, const TrainingState& state, bool rounds = false)
      : m_(model), state_(state), rounds_(rounds) {}

  /// Returns the negative logarithms of the probabilities of all tokens but the first.
  [[nodiscard]] Vector losses(const std::vector<std::int32_t>& ids) const {
    std::vector<Vector> xs;
    const Vector table = weights(0, 0);
    for (const std::int32_t id : ids) {
      const auto begin = table.begin() + id * m_.hidden_size;
      xs.emplace_back(begin, begin + m_.hidden_size);
    }
    for (int layer = 0; layer < m_.num_hidden_layers; ++layer) run_layer(layer + 1, xs);
    const int head = static_cast<int>(m_.num_hidden_layers) + 1;
    Vector losses;
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
      const Vector logits = product(weights(head, 1), normalised(xs[t], weights(head, 0)));
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      losses.push_back(std::log(sum) - logits.at(static_cast<std::size_t>(ids[t + 1])));
    }
    return losses;
  }

 private:
  /// Returns a matrix of a block, in the order of its segments.
  [[nodiscard]] Vector weights(int block, std::size_t segment) const {
    const Segment& s = state_.layout().blocks[BlockId(block)].segments.at(segment);
    const Vector all = state_.master(BlockId(block));
    return {all.begin() + s.offset, all.begin() + s.offset + s.elements()};
  }
  static Vector product(const Vector& matrix, const Vector& x) {
    Vector y(matrix.size() / x.size());
    for (std::size_t row = 0; row < y.size(); ++row) {
      const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(row * x.size());
      y[row] = std::inner_product(x.begin(), x.end(), begin, 0.0);
    }
    return y;
  }
  /// Returns the linear of a layer.
  [[nodiscard]] Vector linear(int block, std::size_t segment, const Vector& x) const {
    const Vector w = weights(block, segment);
    if (!rounds_) return product(w, x);
    return product(quantized(w, std::ssize(w) / std::ssize(x)).values(), quantized(x, 1).values());
  }
  [[nodiscard]] Vector normalised(const Vector& x, const Vector& weight) const {
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    const double rms = std::sqrt(squares / static_cast<double>(x.size()) + m_.rms_norm_eps);
    Vector y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / rms * weight[i]);
    return y;
  }
  /// Turns the pairs (i, i + D / 2) of a head by its position.
  void turn(std::span<double> head, std::size_t position) const {
    const std::size_t half = head.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(half);
      const double angle = static_cast<double>(position) * std::pow(m_.rope_theta, -share);
      const double a = head[i];
      const double b = head[i + half];
      head[i] = a * std::cos(angle) - b * std::sin(angle);
      head[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  /// Adds to every token what the layer of a block makes of it and of those before it.
  void run_layer(int block, std::vector<Vector>& xs) const {
    const auto inner = static_cast<std::size_t>(m_.intermediate_size);
    std::vector<Vector> qkvs;
    for (std::size_t t = 0; t < xs.size(); ++t) {
      qkvs.push_back(linear(block, 1, normalised(xs[t], weights(block, 0))));
      const std::span<double> all(qkvs.back());
      for (std::size_t h = 0; h < kHeads + kKvHeads; ++h) {
        turn(all.subspan(h * kHeadSize, kHeadSize), t);
      }
      Vector o;
      for (std::size_t h = 0; h < kHeads; ++h) {
        const Vector of_head = attend(qkvs, h, kHeads + h / (kHeads / kKvHeads));
        o.insert(o.end(), of_head.begin(), of_head.end());
      }
      add(linear(block, 2, o), xs[t]);
      const Vector gate_up = linear(block, 4, normalised(xs[t], weights(block, 3)));
      Vector act;
      for (std::size_t i = 0; i < inner; ++i) {
        act.push_back(gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[inner + i]);
      }
      add(linear(block, 5, act), xs[t]);
    }
  }
  /// Returns what a head of the last token gets of all tokens. Its keys are head `key` of qkv, and
  /// its values kKvHeads behind them.
  static Vector attend(const std::vector<Vector>& qkvs, std::size_t query, std::size_t key) {
    Vector sum(kHeadSize, 0.0);
    double weights = 0;
    for (const Vector& seen : qkvs) {
      double score = 0;
      for (std::size_t i = 0; i < kHeadSize; ++i) {
        score += qkvs.back()[query * kHeadSize + i] * seen[key * kHeadSize + i];
      }
      const double weight = std::exp(score / std::sqrt(static_cast<double>(kHeadSize)));
      weights += weight;
      for (std::size_t i = 0; i < kHeadSize; ++i) {
        sum[i] += weight * seen[(key + kKvHeads) * kHeadSize + i];
      }
    }
    for (double& s : sum) s /= weights;
    return sum;
  }
  static void add(const Vector& from, Vector& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  LlamaConfig m_;
  const TrainingState& state_;
  bool rounds_;
};

struct Sequence {
  int group = 0;
  std::int64_t row = 0;  ///< first of its rows in the group
  std::vector<std::int32_t> ids;
};

constexpr std::int64_t kContext = 12;

/// Three sequences in two groups.
std::vector<Sequence> sequences() {
  std::vector<Sequence> all{{.group = 0, .row = 0, .ids = {}},
                            {.group = 0, .row = kContext, .ids = {}},
                            {.group = 1, .row = 3, .ids = {}}};
  for (std::size_t s = 0; s < all.size(); ++s) {
    for (std::int32_t i = 0; i < kContext; ++i) {
      all[s].ids.push_back((17 * i * i + 5 * i + 23 * static_cast<std::int32_t>(s)) % 61);
    }
  }
  return all;
}

/// What comes of a sequence in a sweep: a part of its prompt, or a single token past it.
struct Share {
  std::size_t sequence = 0;
  std::int64_t count = 0;
  bool single = false;
};
/// Prompts are cut by sweeps and by cells; groups are left out, and have both kinds of tokens.
const std::vector<std::vector<Share>> kSweeps{{{0, 8}, {1, 3}, {2, 5}},
                                              {{0, 1, true}, {1, 5}, {2, 1, true}},
                                              {{0, 1, true}, {1, 1, true}, {2, 1, true}},
                                              {{2, 1, true}},
                                              {{0, 1, true}, {1, 1, true}, {2, 1, true}}};

/// Where things are: units on the device, slots for keys and values, and layers in which tokens
/// past their prompts attend on the device although they attend on the host in others.
struct SweepPlacement {
  int resident_units = 7;  ///< all
  int kv_slots = 0;
  std::optional<int> fetched_layers{};  ///< absent: none attends on the host
  Products products = Products::kPlain;
};
constexpr SweepPlacement kSweepPlacements[] = {
    {.resident_units = 7},
    {.resident_units = 0},
    {.resident_units = 0, .kv_slots = 1},
    {.resident_units = 2, .kv_slots = 4},
    {.resident_units = 0, .kv_slots = 2, .fetched_layers = 0},
    {.resident_units = 0, .kv_slots = 1, .fetched_layers = 1},
    {.resident_units = 3, .kv_slots = 2, .fetched_layers = 3}};

GenerationSetup setup_of(const SweepPlacement& p) {
  return make_generation_setup(deep_model(),
                               {.compute = DType::kF64,
                                .sequences = 4,
                                .context = kContext,
                                .cell_tokens = 6,
                                .sweep_tokens = 16,
                                .scores = true,
                                .resident_units = p.resident_units,
                                .kv_slots = p.kv_slots,
                                .host_attention = p.fetched_layers.has_value(),
                                .fetched_layers = p.fetched_layers.value_or(0),
                                .groups = 2,
                                .products = p.products},
                               Budget{});
}

class Rig {
 public:
  explicit Rig(const SweepPlacement& placement, const LaneOptions& lanes = {})
      : machine(lanes),
        setup_(setup_of(placement)),
        engine(setup_, machine.backend(), *machine.collectives().shard) {
    engine.state().initialize(3, 0.3, machine.pool());
  }

  /// Runs a sweep that scores the token after each of its tokens, and keeps the scores.
  void run(const std::vector<Share>& shares) {
    SweepWriter writer = write();
    std::vector<std::size_t> scored;
    for (const Share& share : shares) {
      const std::int64_t end = std::ssize(losses[share.sequence]) + share.count;
      add(writer, share);
      for (std::int64_t back = share.count; back > 0; --back) {
        writer.score(back, all[share.sequence].ids.at(static_cast<std::size_t>(end - back + 1)));
        scored.push_back(share.sequence);
      }
    }
    engine.sweep().run(writer.take());
    const Vector scores = engine.tokens().results(std::ssize(scored)).logprob;
    for (std::size_t i = 0; i < scored.size(); ++i) losses[scored[i]].push_back(scores[i]);
  }
  /// Runs a sweep that scores nothing; NaN stand for the scores of its tokens.
  void run_without_scores(const Share& share) {
    SweepWriter writer = write();
    add(writer, share);
    engine.sweep().run(writer.take());
    losses[share.sequence].resize(
        losses[share.sequence].size() + static_cast<std::size_t>(share.count),
        std::numeric_limits<double>::quiet_NaN());
  }
  void run_all() {
    for (const std::vector<Share>& shares : kSweeps) run(shares);
    machine.device().synchronize();
  }

  const std::vector<Sequence> all = sequences();
  std::vector<Vector> losses = std::vector<Vector>(all.size());  ///< of each sequence, so far
  LaneMachine machine;

 private:
  [[nodiscard]] SweepWriter write() {
    return {engine.tokens().host(), setup_.sizes.cell_tokens, setup_.kv};
  }
  void add(SweepWriter& writer, const Share& share) const {
    const Sequence& s = all[share.sequence];
    const std::size_t done = losses[share.sequence].size();
    writer.add_share({.slot = share.sequence,
                      .group = s.group,
                      .row = s.row,
                      .begin = static_cast<std::int64_t>(done),
                      .count = share.count,
                      .single = share.single},
                     std::span(s.ids).subspan(done, static_cast<std::size_t>(share.count)));
  }

  const GenerationSetup setup_;

 public:
  GenerationEngine engine;
};

constexpr double kRounding = 1e-12;

/// Returns the units of what sweeps have submitted on a lane, in order.
std::vector<int> units_on(const Rig& rig, Lane lane) {
  std::vector<int> units;
  for (const TraceRecord& record : rig.machine.recorder().records()) {
    const Tag& tag = record.what.tag;
    if (record.lane == lane && tag.phase == "sweep" && tag.unit >= 0) units.push_back(tag.unit);
  }
  return units;
}

}  // namespace

TEST_CASE("tokens have the scores of a plain forward, in whatever sweeps and cells they come") {
  for (const Products products : {Products::kPlain, Products::kFp8}) {
    std::vector<Vector> expected;
    for (SweepPlacement placement : kSweepPlacements) {
      placement.products = products;
      for (const LaneOptions& lanes : all_executions()) {
        Rig rig(placement, lanes);
        rig.run_all();
        INFO(placement.resident_units
             << " resident units, " << placement.kv_slots << " slots, host attention "
             << placement.fetched_layers.has_value() << ", seed " << lanes.seed << ", in e4m3 "
             << (products == Products::kFp8));
        if (expected.empty()) {
          const PlainForward plain(deep_model(), rig.engine.state(), products == Products::kFp8);
          for (const Sequence& s : rig.all) expected.push_back(plain.losses(s.ids));
        }
        for (std::size_t s = 0; s < expected.size(); ++s) {
          REQUIRE(rig.losses[s].size() >= 9);
          for (std::size_t i = 0; i < rig.losses[s].size(); ++i) {
            CHECK(std::abs(rig.losses[s][i] - expected[s].at(i)) < kRounding);
          }
        }
        CHECK(rig.machine.race() == "");
      }
    }
  }
}

TEST_CASE("a sweep takes all its cells through a layer while the weights are there once") {
  Rig rig({.resident_units = 0, .kv_slots = 2});
  rig.run(kSweeps[0]);
  rig.run(kSweeps[1]);
  const std::vector<int> loads = units_on(rig, Lane::kWeightsIn);
  // The slots hold the first three layers of the next sweep already.
  for (const int layer : {4, kLastLayer}) CHECK(std::ranges::count(loads, layer) == 2);
  std::vector<int> visited = units_on(rig, Lane::kCompute);
  visited.erase(std::unique(visited.begin(), visited.end()), visited.end());
  CHECK(visited == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("the next sweep's first weights come while the last ones of this sweep compute") {
  Rig rig({.resident_units = 0});
  rig.run(kSweeps[0]);
  const Recorder& recorder = rig.machine.recorder();
  std::vector<std::size_t> loads = recorder.find("copy", {.phase = "sweep", .unit = 1});
  std::erase_if(loads,
                [&](std::size_t i) { return recorder.records()[i].lane != Lane::kWeightsIn; });
  REQUIRE(loads.size() == 2);
  const std::vector<std::size_t> last =
      recorder.find("matmul", {.phase = "sweep", .unit = kLastLayer});
  REQUIRE(!last.empty());
  CHECK(recorder.may_overlap(loads.back(), last.back()));
}

TEST_CASE("a sweep in which nothing is drawn adds to keys and values alone") {
  Rig rig({});
  rig.run_without_scores({0, 8});
  CHECK(std::ranges::count(units_on(rig, Lane::kCompute), kHead) == 0);
  rig.run({{0, 1, true}});
  CHECK(std::ranges::count(units_on(rig, Lane::kCompute), kHead) > 0);
  const Vector expected = PlainForward(deep_model(), rig.engine.state()).losses(rig.all[0].ids);
  REQUIRE(rig.losses[0].size() == 9);
  CHECK(std::abs(rig.losses[0].back() - expected.at(8)) < kRounding);
}

TEST_CASE("a wait of a sweep that is left out is found as a race", "[one_thread]") {
  for (const WaitFor wait :
       {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kArrived, WaitFor::kTaken}) {
    Rig rig({.resident_units = 0, .kv_slots = 1, .fetched_layers = 1},
            {.execution = Execution::kEager, .omit_wait = wait});
    rig.run_all();
    INFO("left out: " << std::string(name_of(wait)));
    CHECK(rig.machine.race() != "");
  }
}

}  // namespace strata::test
