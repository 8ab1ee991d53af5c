// Tests keys and values that stay from sweep to sweep. The tests add rows of numbers of their own
// on the compute lane, and every later visit reads there all rows that its group has so far.

#include "strata/store/kv_store.h"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/lane_machine.h"

namespace strata::test {
namespace {

constexpr int kKvLayers = 3;
constexpr int kKvGroups = 3;
constexpr std::int64_t kRows = 20;  // of two sequences of 10
constexpr std::int64_t kKvLongest = 10;

/// What is in a row: keys or values of a sequence, or of a later one that has the row after it.
struct RowOf {
  int layer = 0;
  int group = 0;
  int sequences_before = 0;
  bool value = false;
};
std::vector<double> row_numbers(const RowOf& of, std::int64_t row) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::int64_t mixed = 31 * of.layer + 17 * of.group + 7 * row + 3 * i;
    numbers.push_back(
        static_cast<double>(mixed + 1000 * of.sequences_before + (of.value ? 500 : 0)));
  }
  return numbers;
}

KvShape shape_of(int slots, int attended_layers = 0) {
  return {.layers = kKvLayers,
          .groups = kKvGroups,
          .rows = kRows,
          .heads = 2,
          .head_size = 3,
          .dtype = DType::kF32,
          .slots = slots,
          .attended_layers = attended_layers};
}

class KvRig {
 public:
  KvRig(const LaneOptions& options, const KvShape& shape)
      : machine(options), kv(shape, machine.arenas()) {}

  /// Adds `count` rows to these sequences of the groups in every layer; before that reads what the
  /// sequences have.
  void sweep(const std::vector<int>& groups, std::int64_t count,
             const std::vector<int>& sequences = {0, 1}) {
    std::vector<KvVisit> visits;
    for (const int group : groups) {
      KvTraffic rows;
      for (const int sequence : sequences) {
        std::int64_t& had = lengths_[{group, sequence}];
        rows.kept.push_back({sequence * kKvLongest, had});
        rows.added.push_back({sequence * kKvLongest + had, count});
        had += count;
      }
      visits.push_back({.group = group, .whole = std::move(rows)});
    }
    kv.begin_sweep(visits);
    for (int layer = 0; layer < kKvLayers; ++layer) {
      for (std::size_t i = 0; i < visits.size(); ++i) visit(layer, i, visits[i]);
    }
  }
  /// Lets new sequences have the rows of a group.
  void restart(int group) {
    for (const int sequence : {0, 1}) lengths_[{group, sequence}] = 0;
    ++restarts_[group];
  }
  /// Waits, and returns how many rows were not what was added.
  int wrong_rows() {
    machine.device().synchronize();
    int wrong = 0;
    for (const auto& [values, expected] : readings_) wrong += *values == expected ? 0 : 1;
    return wrong;
  }

  LaneMachine machine;
  KvStore kv;

 private:
  void visit(int layer, std::size_t number, const KvVisit& visit) {
    Stream& compute = machine.lane(Lane::kCompute);
    KvLease lease = kv.acquire(layer, number, compute, {});
    kv.prefetch({});
    for (const bool value : {false, true}) {
      const TensorView& rows = value ? lease.views.v : lease.views.k;
      const RowOf of{layer, visit.group, restarts_[visit.group], value};
      for (const KvRows& run : visit.whole.kept) {
        for (std::int64_t row = run.begin; row < run.begin + run.count; ++row) {
          readings_.emplace_back(&machine.read(Lane::kCompute, rows.slice_rows(row, 1)),
                                 row_numbers(of, row));
        }
      }
      for (const KvRows& run : visit.whole.added) {
        for (std::int64_t row = run.begin; row < run.begin + run.count; ++row) {
          machine.write(Lane::kCompute, rows.slice_rows(row, 1), row_numbers(of, row));
        }
      }
    }
    kv.keep(std::move(lease), compute, {});
    kv.prefetch({});
  }

  std::map<std::pair<int, int>, std::int64_t> lengths_;  ///< by group and sequence
  std::map<int, int> restarts_;
  std::vector<std::pair<const std::vector<double>*, std::vector<double>>> readings_;
};

/// Some sweeps visit all groups and some leave out one, whose rows stay at home; rows are also
/// written again at once.
void run_sweeps(KvRig& rig) {
  rig.sweep({0, 1, 2}, 2);
  for (const int group : {0, 2}) rig.restart(group);
  rig.sweep({0, 1, 2}, 3);
  rig.sweep({0, 2}, 1);
  rig.sweep({0, 1, 2}, 2);
  rig.sweep({1}, 1);
  rig.sweep({0, 1, 2}, 1);
}

/// Some sweeps have no room for one of the sequences of a group, which waits with its rows.
void run_sweeps_that_leave_out(KvRig& rig) {
  rig.sweep({0, 1, 2}, 2);
  rig.sweep({1}, 1, {0});
  rig.sweep({1}, 1);
  rig.sweep({0, 2}, 2, {1});
  rig.sweep({0, 1, 2}, 1);
}

}  // namespace

TEST_CASE("what sweeps add is there in later ones, through any number of slots") {
  for (const LaneOptions& options : all_executions()) {
    for (const int slots : {0, 1, 2, 4, 9}) {
      INFO(slots << " slots, seed " << options.seed);
      KvRig rig(options, shape_of(slots));
      run_sweeps(rig);
      CHECK(rig.wrong_rows() == 0);
      CHECK(rig.machine.race() == "");
    }
  }
}

TEST_CASE("a sequence that a sweep leaves out has its rows in the next one") {
  for (const int slots : {0, 1, 2, 4, 5, 6, 7, 8, 9}) {
    INFO(slots << " slots");
    KvRig rig({}, shape_of(slots));
    run_sweeps_that_leave_out(rig);
    CHECK(rig.wrong_rows() == 0);
  }
}

TEST_CASE("only rows that are kept come, and only rows that were added go home") {
  struct Case {
    int slots;
    std::size_t fetched, sent;  ///< rows of a layer
  };
  // Two groups with two sequences each: 3 rows are added, then 2 where 3 are kept.
  for (const Case& c : {Case{0, 0, 0}, Case{1, 2 * 2 * 3, 2 * 2 * 5}, Case{2, 2 * 2 * 3, 2 * 2 * 5},
                        Case{9, 0, 2 * 2 * 5}}) {
    INFO(c.slots << " slots");
    const KvShape shape = shape_of(c.slots);
    KvRig rig({}, shape);
    rig.sweep({0, 1}, 3);
    rig.sweep({0, 1}, 2);
    CHECK(rig.wrong_rows() == 0);
    CHECK(rig.kv.fetched_bytes() == kKvLayers * c.fetched * shape.row_bytes());
    CHECK(rig.kv.sent_bytes() == kKvLayers * c.sent * shape.row_bytes());
  }
}

TEST_CASE("layers that attend at home fetch what prompts see alone, and nothing goes home") {
  const KvShape shape = shape_of(2, 2);
  KvRig rig({}, shape);
  rig.kv.begin_sweep(
      {{.group = 0, .whole = {.kept = {{0, 2}}, .added = {{2, 1}}, .kept_elsewhere = {{8, 5}}}},
       {.group = 1, .whole = {.kept = {}, .added = {}, .kept_elsewhere = {{0, 4}}}}});
  Stream& compute = rig.machine.lane(Lane::kCompute);
  std::size_t rows = 0;
  int fetching = 0;
  for (int layer = 0; layer < kKvLayers; ++layer) {
    const bool at_home = shape.attended_at_home(layer);
    fetching += at_home ? 0 : 1;
    for (const std::size_t visit : {0, 1}) {
      if (at_home && visit == 1) continue;  // nothing of this group is read on the device
      rig.kv.keep(rig.kv.acquire(layer, visit, compute, {}), compute, {});
    }
    rows += at_home ? 2 : 2 + 5 + 4;
    CHECK(rig.kv.fetched_bytes() == rows * shape.row_bytes());
  }
  CHECK(fetching == 1);
  CHECK(rig.kv.sent_bytes() == 0);
}

TEST_CASE("a visit out of turn is refused, and one for which no slot is free") {
  KvRig rig({}, shape_of(1));
  Stream& compute = rig.machine.lane(Lane::kCompute);
  const std::vector<KvRows> first{{0, 1}};
  rig.kv.begin_sweep({{.group = 0, .whole = {.kept = {}, .added = first, .kept_elsewhere = {}}},
                      {.group = 1, .whole = {.kept = {}, .added = first, .kept_elsewhere = {}}}});
  const KvLease lease = rig.kv.acquire(0, 0, compute, {});
  CHECK_THROWS_AS(rig.kv.acquire(0, 0, compute, {}), std::logic_error);
  CHECK_THROWS_AS(rig.kv.acquire(0, 1, compute, {}), std::logic_error);
}

TEST_CASE("a wait on the way of keys and values that is left out is found as a race") {
  for (const WaitFor wait : {WaitFor::kFilled, WaitFor::kReuse}) {
    KvRig rig({.execution = Execution::kEager, .omit_wait = wait}, shape_of(2));
    run_sweeps(rig);
    INFO("left out: " << std::string(name_of(wait)));
    CHECK(rig.machine.race() != "");
  }
}

}  // namespace strata::test
