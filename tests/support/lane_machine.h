// One rank's cpu device with its collectives and an arena of each kind, and what tests of stores
// and updaters do on its lanes themselves: they write and read tensors there, so that a wait that
// is missing in the code under test shows as a wrong value, or as a race in the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/comm/rank_groups.h"
#include "strata/device/allocator.h"
#include "strata/ops/backend.h"

namespace strata::test {

/// How the lanes of a LaneMachine run. Slots are always poisoned.
struct LaneOptions {
  Execution execution = Execution::kThreads;
  std::uint64_t seed = 0;               ///< of the shuffled execution
  std::optional<WaitFor> omit_wait{};   ///< left out, to test that races are found
  std::size_t arena_bytes = 16 * kMiB;  ///< of each of three arenas
};

/// Returns every way to run the lanes, the shuffled one with several seeds.
[[nodiscard]] inline std::vector<LaneOptions> all_executions() {
  std::vector<LaneOptions> all{{.execution = Execution::kEager},
                               {.execution = Execution::kThreads}};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    all.push_back({.execution = Execution::kShuffled, .seed = seed});
  }
  return all;
}

/// Everything that is submitted is recorded. All calls come from the thread that made the machine.
class LaneMachine {
 public:
  /// Makes a machine of one rank.
  explicit LaneMachine(const LaneOptions& options = {}) : LaneMachine(options, make_self_ranks()) {}
  /// Makes the machine of one of `ranks`, which outlive it; all of them make one.
  LaneMachine(const LaneOptions& options, Ranks& ranks, ShardGroup kind = ShardGroup::kAll)
      : groups_(ranks, kind),
        backend_(make_backend(BackendKind::kCpu, {.device = {.execution = options.execution,
                                                             .shuffle_seed = options.seed,
                                                             .poison_slots = true,
                                                             .omit_wait = options.omit_wait,
                                                             .trace = &recorder_},
                                                  .threads = 1})),
        collectives_(make_group_collectives(groups_, *backend_.device)),
        device_(*backend_.device, Space::kDevice, options.arena_bytes, "device"),
        pinned_(*backend_.device, Space::kPinned, options.arena_bytes, "pinned"),
        pageable_(*backend_.device, Space::kPageable, options.arena_bytes, "pageable"),
        arenas_(device_, pinned_, pageable_) {
    recorder_.start();
  }

  [[nodiscard]] const GroupPlace& place() const { return groups_.place(); }
  [[nodiscard]] const Backend& backend() const { return backend_; }
  [[nodiscard]] Device& device() { return *backend_.device; }
  [[nodiscard]] Kernels& kernels() { return *backend_.kernels; }
  [[nodiscard]] ThreadPool& pool() { return *backend_.pool; }
  [[nodiscard]] GroupCollectives& collectives() { return collectives_; }
  [[nodiscard]] Arenas& arenas() { return arenas_; }
  [[nodiscard]] Stream& lane(Lane lane) { return device().stream(lane); }
  [[nodiscard]] const Recorder& recorder() const { return recorder_; }
  /// Returns the first race of what was submitted as text, or "".
  [[nodiscard]] std::string race() const {
    const std::vector<Race> races = recorder_.races(1);
    return races.empty() ? "" : races.front().text;
  }

  /// Submits on a lane that the tensor gets these values, each as its dtype has it.
  void write(Lane on, const TensorView& to, std::vector<double> values) {
    lane(on).host_task(
        "write", [&] { return Accesses({}, {to.bytes()}); }, {.phase = "test"},
        [to, values = std::move(values)] {
          store_as(values, to.dtype, {static_cast<std::byte*>(to.data), to.bytes().bytes});
        });
  }
  /// Submits on a lane that a tensor is read, row by row where rows are strided. The values are
  /// there when the lane has got so far, and stay as long as the machine.
  [[nodiscard]] const std::vector<double>& read(Lane on, const ConstTensorView& from) {
    std::vector<double>& values = read_.emplace_back();
    lane(on).host_task(
        "read", [&] { return Accesses({from.bytes()}, {}); }, {.phase = "test"},
        [from, &values] {
          for (std::int64_t row = 0; row < from.rows(); ++row) {
            const std::vector<double> one = load_as_double(from.slice_rows(row, 1));
            values.insert(values.end(), one.begin(), one.end());
          }
        });
    return values;
  }
  /// Lets a lane go on when another one has done what was submitted on it so far.
  void order(Lane first, Lane second) { lane(second).wait(lane(first).record(), WaitFor::kSaved); }

 private:
  LaneMachine(const LaneOptions& options, std::unique_ptr<Ranks> self)
      : LaneMachine(options, *self) {
    self_ = std::move(self);
  }

  Recorder recorder_;
  std::deque<std::vector<double>> read_;
  std::unique_ptr<Ranks> self_;  ///< absent where somebody else has the ranks
  RankGroups groups_;
  Backend backend_;
  GroupCollectives collectives_;
  Arena device_, pinned_, pageable_;
  Arenas arenas_;
};

}  // namespace strata::test
