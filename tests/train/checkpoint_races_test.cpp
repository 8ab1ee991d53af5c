// Checks the order of what saves submit among the work of steps: from the mark past the next
// updates nothing may touch the same bytes unordered, and each wait that holds this up must be
// found when it is left out.

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "support/catch.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

/// Records on rank 0 four steps of a run that saves after the first and after the third. That the
/// first save has ended is seen without waiting for it, because waiting is an order too.
void trace_saves(Recorder& recorder, const RunConfig& config, int ranks,
                 std::optional<WaitFor> omit = {}, const SaveKinds& kinds = {.whole = true}) {
  MemoryFiles files(kRunFolder);
  run_ranks(ranks, [&](Ranks& group) {
    const bool watched = group.rank() == 0;
    Session session(
        config, group,
        {.trace = watched ? &recorder : nullptr,
         .omit_wait = omit,
         .checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}}});
    Checkpointer& checkpoints = *session.checkpoints();
    if (watched) recorder.start();
    for (std::int64_t step = 0; step < 4; ++step) {
      const SaveKinds due = step % 2 == 0 ? kinds : SaveKinds{};
      if (session.submit(step, config.optimizer.lr, due) != due) throw std::logic_error("busy");
      if (step != 1) continue;
      std::vector<SaveReport> reports;
      while ((reports = checkpoints.take_reports()).empty()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      if (!reports[0].failure.empty()) throw std::logic_error(reports[0].failure);
    }
    session.synchronize();
    checkpoints.wait();
    if (watched) recorder.stop();
  });
}

std::string first_race(const Recorder& recorder) {
  const std::vector<Race> races = recorder.races(1);
  return races.empty() ? "" : races.front().text;
}

void check_races(const std::vector<Numbers>& all, std::size_t stagings) {
  std::size_t turn = 0;
  for (const Numbers& numbers : all) {
    for (const Placement& placement : placements_of(numbers)) {
      for (std::size_t i = 0; i < stagings; ++i) {
        const Staged staged = kStaged[(turn + i) % std::size(kStaged)];
        INFO(numbers.to_string() << "; " << placement.to_string() << "; " << to_string(staged));
        RunConfig config = save_config(numbers, placement, staged);
        config.debug.poison_slots = false;
        Recorder r;
        // Weights alone every fourth time: most of the work is the same.
        const SaveKinds kinds{.whole = turn % 4 != 0, .weights = turn % 2 == 0};
        trace_saves(r, config, numbers.ranks, {}, kinds);
        CHECK(first_race(r) == "");
        const std::size_t blocks = 5;
        CHECK(r.find("write_state").size() == 2 * blocks);
        CHECK(r.find("commit_saves").size() == 2);
      }
      ++turn;
    }
  }
}

/// Returns whether a race is between two submissions of these names.
bool between(const Recorder& r, const Race& race, std::string_view one, std::string_view other) {
  const std::string_view a = r.records()[race.first].what.name;
  const std::string_view b = r.records()[race.second].what.name;
  return (a == one && b == other) || (a == other && b == one);
}

bool has_race(const Recorder& r, std::string_view one, std::string_view other) {
  return std::ranges::any_of(r.races(100'000),
                             [&](const Race& race) { return between(r, race, one, other); });
}

/// The traced run, in which the numbers stay right although a wait is left out.
std::unique_ptr<Recorder> trace_without(WaitFor omitted, const Placement& placement,
                                        Staged staged) {
  RunConfig config = save_config({}, placement, staged, Execution::kEager);
  config.debug.poison_slots = false;
  auto r = std::make_unique<Recorder>();
  trace_saves(*r, config, 1, omitted);
  return r;
}

}  // namespace

TEST_CASE("steps from the mark past the next updates have no race") {
  check_races({{.tied = true}, {.moments = DType::kBF16, .passes = 3}, {.ranks = 2}}, 1);
}

TEST_CASE("saves have no race, whatever the placement and the staging", "[slow]") {
  check_races({{},
               {.tied = true},
               {.moments = DType::kBF16, .passes = 3},
               {.dtype = DType::kF32},
               {.ranks = 2},
               {.tied = true, .ranks = 4}},
              std::size(kStaged));
}

TEST_CASE("an update that does not wait until the state was written is found") {
  for (const UpdateTiming timing :
       {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
    INFO(enum_name(kUpdateTimingNames, timing));
    const auto host = trace_without(WaitFor::kSaved, {.timing = timing}, Staged::kNone);
    CHECK(has_race(*host, "write_state", "adamw"));
    // State that travels comes home while its old bytes are written.
    const auto shuttle = trace_without(
        WaitFor::kSaved, {.timing = timing, .deferred = 1, .interleave = 1}, Staged::kNone);
    CHECK(has_race(*shuttle, "write_state", "copy"));
  }
}

TEST_CASE("an update that does not wait until weights alone were written is found") {
  RunConfig config = save_config({}, {}, Staged::kNone, Execution::kEager);
  config.debug.poison_slots = false;
  Recorder r;
  trace_saves(r, config, 1, WaitFor::kSaved, {.weights = true});
  CHECK(has_race(r, "write_state", "adamw"));
}

TEST_CASE("state that is written before it is final is found") {
  for (const UpdateTiming timing :
       {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
    INFO(enum_name(kUpdateTimingNames, timing));
    CHECK(has_race(*trace_without(WaitFor::kUpdated, {.timing = timing}, Staged::kNone),
                   "write_state", "adamw"));
    CHECK(has_race(
        *trace_without(WaitFor::kUpdated, {.timing = timing, .interleave = 1}, Staged::kAll),
        "stage_state", "copy"));
  }
}

TEST_CASE("staged state that is written before it was copied is found") {
  CHECK(
      has_race(*trace_without(WaitFor::kArrived, {}, Staged::kAll), "write_state", "stage_state"));
  CHECK(has_race(*trace_without(WaitFor::kArrived, {.resident = 5}, Staged::kNone), "write_state",
                 "copy"));
}

TEST_CASE("state that is staged where the last save still reads is found") {
  CHECK(has_race(*trace_without(WaitFor::kReuse, {}, Staged::kAll), "write_state", "stage_state"));
  CHECK(has_race(*trace_without(WaitFor::kReuse, {.resident = 5}, Staged::kNone), "write_state",
                 "copy"));
}

TEST_CASE("a save ends behind what decides its step") {
  const auto unordered = [](const Recorder& r) {
    const std::size_t decide = r.find("decide").at(0);
    const std::size_t commit = r.find("commit_saves").at(0);
    return r.may_overlap(decide, commit);
  };
  // Staged and resident alone: their copies do not wait for the host lane's later tasks.
  const Placement resident{.timing = UpdateTiming::kOnArrival, .resident = 5};
  RunConfig config = save_config({}, resident, Staged::kNone, Execution::kEager);
  Recorder r;
  trace_saves(r, config, 1);
  CHECK(!unordered(r));
  CHECK(unordered(*trace_without(WaitFor::kDecided, resident, Staged::kNone)));
}

}  // namespace strata::test
