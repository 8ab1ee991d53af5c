// Tests attention on the host with cells whose queries, keys and values the tests make up. They
// compare what comes back with softmax(q k) v in f64. All cells of a layer are written to one
// buffer on the device, as the model does it.

#include "strata/store/host_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/random.h"
#include "support/catch.h"
#include "support/lane_machine.h"

namespace strata::test {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kSize = 3;  // of a head
constexpr std::int64_t kWidth = (kHeads + 2 * kKvHeads) * kSize;
constexpr double kScale = 0.4;
constexpr int kLayers = 3;
constexpr std::array<std::int64_t, kLayers> kWindows{0, 2, 0};
constexpr int kGroups = 2;
constexpr std::int64_t kLongest = 5;    // positions of a sequence
constexpr std::int64_t kSequences = 2;  // of a group

/// Queries, keys and values of the token at a position of a sequence in a layer.
std::vector<double> token(int layer, int group, std::int64_t sequence, std::int64_t position) {
  const auto stream = static_cast<std::uint64_t>(100 * layer + 10 * group + sequence);
  std::vector<double> qkv;
  for (std::int64_t i = 0; i < kWidth; ++i) {
    qkv.push_back(random_normal(5, stream, static_cast<std::uint64_t>(position * kWidth + i)));
  }
  return qkv;
}

/// Returns what the last of so many tokens gets, [H * D]: for each head the values that it sees,
/// weighted by the softmax of its scores.
std::vector<double> attention(int layer, int group, std::int64_t sequence, std::int64_t positions) {
  const std::vector<double> last = token(layer, group, sequence, positions - 1);
  std::vector<double> o;
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const std::int64_t kv_head = head / (kHeads / kKvHeads);
    std::vector<double> sum(kSize, 0.0);
    double weights = 0;
    const std::int64_t window = kWindows.at(static_cast<std::size_t>(layer));
    for (std::int64_t p = window > 0 ? std::max<std::int64_t>(0, positions - window) : 0;
         p < positions; ++p) {
      const std::vector<double> seen = token(layer, group, sequence, p);
      double score = 0;
      for (std::int64_t i = 0; i < kSize; ++i) {
        score += last.at(head * kSize + i) * seen.at((kHeads + kv_head) * kSize + i);
      }
      const double weight = std::exp(kScale * score);
      weights += weight;
      for (std::int64_t i = 0; i < kSize; ++i) {
        sum.at(i) += weight * seen.at((kHeads + kKvHeads + kv_head) * kSize + i);
      }
    }
    for (const double s : sum) o.push_back(s / weights);
  }
  return o;
}

/// Goes through layers with a cell for each group: both of its sequences have a token each.
class AttentionRig {
 public:
  explicit AttentionRig(const LaneOptions& options)
      : machine(options),
        kv({.layers = kLayers,
            .groups = kGroups,
            .rows = kSequences * kLongest,
            .heads = kKvHeads,
            .head_size = kSize,
            .dtype = DType::kF64,
            .slots = 1,
            .attended_layers = kLayers},
           machine.arenas()),
        host({.tokens = kGroups * kSequences,
              .singles = kGroups * kSequences,
              .heads = kHeads,
              .qkv_width = kWidth,
              .scale = kScale,
              .windows = {kWindows.begin(), kWindows.end()}},
             kv, machine.kernels(), machine.kernels(), machine.arenas()),
        qkv_(machine.arenas().tensor(Space::kDevice, "qkv", DType::kF64, {kSequences, kWidth})),
        tables_(machine.arenas().tensor(Space::kPinned, "tables", DType::kI32,
                                        {kLongest, kSequences * 6})) {
    for (std::int64_t position = 0; position < kLongest; ++position) fill_tables(position);
  }

  /// Sends a token of each sequence through all layers; `attends` says whether on the host, or on
  /// the device, where they add keys and values alone.
  void sweep(std::int64_t position, bool attends) {
    Stream& compute = machine.lane(Lane::kCompute);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int group = 0; group < kGroups; ++group) {
        const HostCell cell = cell_of(group, position);
        host.reuse(compute);
        std::vector<double> rows;
        for (std::int64_t s = 0; s < kSequences; ++s) {
          const std::vector<double> one = token(layer, group, s, position);
          rows.insert(rows.end(), one.begin(), one.end());
        }
        machine.write(Lane::kCompute, qkv_, std::move(rows));
        if (attends) {
          host.attend(layer, cell, qkv_, compute, {});
        } else {
          host.keep(layer, cell, qkv_, compute, {});
        }
      }
      for (int group = 0; group < kGroups && attends; ++group) read(layer, group, position);
    }
  }
  /// Waits, and returns the largest difference of what came back from what was to come.
  double error() {
    machine.device().synchronize();
    double largest = 0;
    for (const auto& [values, expected] : readings_) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(values->at(i) - expected[i]);
        if (!(difference <= largest)) largest = difference;  // also if it is NaN
      }
    }
    return largest;
  }

  LaneMachine machine;
  KvStore kv;
  HostAttention host;

 private:
  /// Writes the tables of a cell whose tokens are at this position: rows, and then segments.
  void fill_tables(std::int64_t position) {
    auto* const entries = tables_.slice_rows(position, 1).as<std::int32_t>();
    for (std::int64_t s = 0; s < kSequences; ++s) {
      const std::int64_t row = s * kLongest;
      entries[s] = static_cast<std::int32_t>(row + position);
      const std::int64_t segment[] = {s, row, 1, position + 1, position};
      std::ranges::transform(segment, entries + kSequences + 5 * s,
                             [](std::int64_t value) { return static_cast<std::int32_t>(value); });
    }
  }
  [[nodiscard]] HostCell cell_of(int group, std::int64_t position) const {
    const auto* const entries = tables_.slice_rows(position, 1).as<std::int32_t>();
    return {.number = static_cast<std::size_t>(group),
            .group = group,
            .begin = group * kSequences,
            .first_single = group * kSequences,
            .rows = {entries, DType::kI32, Shape{kSequences}},
            .segments = {entries + kSequences, DType::kI32, Shape{kSequences, 5}},
            .pieces = {&piece_, 1}};
  }
  void read(int layer, int group, std::int64_t position) {
    const ConstTensorView o =
        host.attended(cell_of(group, position), machine.lane(Lane::kCompute), {});
    for (std::int64_t s = 0; s < kSequences; ++s) {
      readings_.emplace_back(&machine.read(Lane::kCompute, o.slice_rows(s, 1)),
                             attention(layer, group, s, position + 1));
    }
  }

  KvPiece piece_{.tokens = kSequences, .segments = kSequences, .singles = kSequences};
  TensorView qkv_;     // [tokens of a cell, (H + 2 K) * D]
  TensorView tables_;  // [positions, rows and segments]
  std::vector<std::pair<const std::vector<double>*, std::vector<double>>> readings_;
};

constexpr double kRounding = 1e-13;

}  // namespace

TEST_CASE("tokens attend on the host to themselves and all before, which came there or not") {
  for (const LaneOptions& options : all_executions()) {
    for (const std::int64_t on_device : {0, 3}) {
      INFO("the first " << on_device << " tokens attend on the device, seed " << options.seed);
      AttentionRig rig(options);
      for (std::int64_t p = 0; p < kLongest; ++p) rig.sweep(p, p >= on_device);
      CHECK(rig.error() < kRounding);
      CHECK(rig.machine.race() == "");
    }
  }
}

TEST_CASE("what the host adds waits for a fetch of the rows before, and the next fetch for it") {
  using Row = std::vector<double>;
  for (const LaneOptions& options : all_executions()) {
    AttentionRig rig(options);
    Stream& compute = rig.machine.lane(Lane::kCompute);
    std::vector<std::pair<const Row*, Row>> fetched;
    for (int sweep = 0; sweep < 3; ++sweep) {
      // Prompts see row 0 of each group, which the host writes anew while the first fetch is on its
      // way. The one slot holds the last group of the sweep before.
      std::vector<KvVisit> visits;
      for (const int group : {0, 1}) {
        visits.push_back(
            {.group = group, .whole = {.kept = {{0, 1}}, .added = {{4, 1}}, .kept_elsewhere = {}}});
      }
      rig.kv.begin_sweep(std::move(visits));
      rig.kv.prefetch({});
      rig.sweep(0, false);
      for (int i = 0; i < kLayers * kGroups; ++i) {
        const int layer = i / kGroups;
        const int group = i % kGroups;
        KvLease lease = rig.kv.acquire(layer, static_cast<std::size_t>(group), compute, {});
        const Row& row = rig.machine.read(Lane::kCompute, lease.views.k.slice_rows(0, 1));
        const Row sent = token(layer, group, 0, 0);
        const auto keys = sent.begin() + kHeads * kSize;
        // The first fetch came before anything was written.
        if (sweep > 0 || i > 0) fetched.emplace_back(&row, Row(keys, keys + kKvHeads * kSize));
        rig.kv.keep(std::move(lease), compute, {});
      }
    }
    rig.machine.device().synchronize();
    for (const auto& [row, keys] : fetched) CHECK(*row == keys);
    CHECK(rig.machine.race() == "");
  }
}

TEST_CASE("a wait on the way to the host and back that is left out is found as a race") {
  for (const WaitFor wait :
       {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kArrived, WaitFor::kTaken}) {
    AttentionRig rig({.execution = Execution::kEager, .omit_wait = wait});
    rig.sweep(0, false);
    rig.sweep(0, false);
    rig.sweep(1, true);
    rig.sweep(2, true);
    INFO("left out: " << std::string(name_of(wait)));
    CHECK(rig.machine.race() != "");
  }
}

}  // namespace strata::test
