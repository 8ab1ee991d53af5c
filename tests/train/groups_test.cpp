// The same samples must train the same model on any number of ranks, whether all of them or those
// of each host shard the state: up to rounding, since sums are taken in another order.

#include <cmath>
#include <mutex>

#include "strata/predict/prediction.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

/// Ranks, and how they shard the state.
struct Sharing {
  int ranks = 1;
  int on_host = 0;  ///< 0: all of them
};

/// Samples of a step, which 1 to 4 ranks share in 1 or 3 passes.
constexpr std::int64_t kSamples = 36;

RunConfig config_of(Numbers numbers, const Placement& placement, const Sharing& sharing,
                    std::int64_t steps) {
  numbers.ranks = sharing.ranks;
  RunConfig config = save_config(numbers, placement);
  config.run.steps = steps;
  config.run.threads = 1;
  config.run.shard_group = sharing.on_host > 0 ? ShardGroup::kNode : ShardGroup::kAll;
  config.schedule.sub_batches = kSamples / numbers.passes / sharing.ranks;
  config.checkpoint = CheckpointSection::none();
  return config;
}

/// Returns the largest difference of two runs, relative to the largest number of its kind.
double difference(const RunResult& one, const RunResult& other) {
  const auto relative = [](const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return HUGE_VAL;
    double most = 0;
    double off = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(b[i]));
      off = std::max(off, std::abs(a[i] - b[i]));
    }
    return off / most;
  };
  double off = std::max(relative(one.losses, other.losses), relative(one.norms, other.norms));
  for (const auto& [name, weights] : other.weights) {
    off = std::max(off, relative(one.weights.at(name), weights));
  }
  return off;
}

constexpr double kTolerance = 1e-9;

void check_alike(const Numbers& numbers, const Placement& placement,
                 const std::vector<Sharing>& sharings, std::int64_t steps) {
  const RunResult alone = run_session(config_of(numbers, {}, {}, steps));
  for (const Sharing& sharing : sharings) {
    INFO(numbers.to_string() << "; " << placement.to_string() << "; " << sharing.ranks
                             << " ranks, on a host " << sharing.on_host);
    const RunResult run = run_session(config_of(numbers, placement, sharing, steps), sharing.ranks,
                                      {}, sharing.on_host);
    CHECK(run.losses.size() == static_cast<std::size_t>(steps));
    CHECK(difference(run, alone) < kTolerance);
  }
}

const Numbers kPlain{.dtype = DType::kF64};
const Numbers kTiedPasses{.dtype = DType::kF64, .passes = 3, .tied = true};

}  // namespace

TEST_CASE("hosts that each hold the state train as one rank does", "[long]") {
  constexpr std::int64_t kFew = 4;
  std::size_t turn = 0;
  for (const Numbers& numbers : {kPlain, kTiedPasses}) {
    for (const Placement& placement : placements_of(numbers)) {
      if (turn++ % 3 == 0) check_alike(numbers, placement, {{4, 2}}, kFew);
    }
  }
  // As many hosts as ranks: nothing is gathered. Sums are taken on the device.
  check_alike(kTiedPasses, {.timing = UpdateTiming::kOnArrival, .resident = 5}, {{3, 1}}, kFew);
}

TEST_CASE("a step has the rows that it is to have on any ranks, also where a rank has none") {
  constexpr std::int64_t kFew = 4;
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{5}}) {
    RunConfig fitting = config_of(kPlain, {}, {}, kFew);
    fitting.schedule.sub_batches = rows;
    const RunResult wanted = run_session(fitting);
    for (const Sharing& sharing : {Sharing{1, 0}, Sharing{3, 0}, Sharing{4, 2}}) {
      for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
        INFO(rows << " rows, " << sharing.ranks << " ranks");
        RunConfig config = config_of(kTiedPasses, {.timing = timing}, sharing, kFew);
        config.model.llama.tie_word_embeddings = false;
        config.schedule.step_rows = rows;
        CHECK(difference(run_session(config, sharing.ranks, {}, sharing.on_host), wanted) <
              kTolerance);
      }
    }
  }
}

TEST_CASE("any number of ranks, sharing the state in any way, trains as one rank does", "[long]") {
  constexpr std::int64_t kMany = 6;
  for (const Numbers& numbers : {kPlain, kTiedPasses}) {
    for (const Placement& placement : placements_of(numbers)) {
      check_alike(numbers, placement, {{2, 0}, {3, 0}, {4, 0}, {2, 1}, {4, 2}}, kMany);
    }
  }
}

TEST_CASE("any number of ranks trains by muon as one rank does") {
  const auto run = [](const Sharing& sharing) {
    RunConfig config = config_of(kTiedPasses, {}, sharing, 3);
    config.optimizer.kind = OptimizerKind::kMuon;
    return run_session(config, sharing.ranks, {}, sharing.on_host);
  };
  const RunResult alone = run({});
  for (const Sharing& sharing :
       {Sharing{2, 0}, Sharing{3, 0}, Sharing{4, 0}, Sharing{2, 1}, Sharing{4, 2}}) {
    INFO(sharing.ranks << " ranks, on a host " << sharing.on_host);
    const RunResult result = run(sharing);
    CHECK(difference(result, alone) < kTolerance);
    CHECK(result == run(sharing));
  }
}

TEST_CASE("gradients that are summed on the device are added over hosts once a step") {
  RunConfig config = config_of(kTiedPasses, {}, {4, 2}, 2);
  for (const GradientSums sums : {GradientSums::kDevice, GradientSums::kHost}) {
    config.schedule.gradient_sums = sums;
    Recorder recorder;
    std::vector<BlockPlan> rows;
    run_ranks(
        4,
        [&](Ranks& ranks) {
          const bool watched = ranks.rank() == 3;
          Session session(config, ranks, {.trace = watched ? &recorder : nullptr});
          if (watched) recorder.start();
          session.submit(0, 1e-2);
          session.synchronize();
          if (!watched) return;
          recorder.stop();
          for (const BlockPlan& row : session.setup().state.blocks) rows.push_back(row);
        },
        2);
    std::size_t reductions = 0;
    for (const BlockPlan& row : rows) {
      CHECK(row.contributions >= 3);
      const bool on_device = row.sums == SumPlace::kDevice;
      CHECK(on_device == (sums == GradientSums::kDevice));
      reductions += on_device ? 1 : static_cast<std::size_t>(row.contributions);
    }
    CHECK(recorder.find("all_reduce").size() == reductions);
    CHECK(recorder.races().empty());
  }
}

TEST_CASE("sums over hosts that do not wait for the gradient are found") {
  RunConfig config = config_of(kPlain, {}, {2, 1}, 2);
  config.debug.execution = Execution::kThreads;
  config.debug.poison_slots = false;  // sums may really come too early: they are to stay finite
  Recorder recorder;
  run_ranks(
      2,
      [&](Ranks& ranks) {
        const bool watched = ranks.rank() == 0;
        Session session(config, ranks,
                        {.trace = watched ? &recorder : nullptr, .omit_wait = WaitFor::kGathered});
        if (watched) recorder.start();
        session.submit(0, 1e-2);
        session.synchronize();
        if (watched) recorder.stop();
      },
      1);
  const std::vector<Race> races = recorder.races(100'000);
  const auto name = [&](std::size_t i) { return recorder.records()[i].what.name; };
  CHECK(std::ranges::any_of(races, [&](const Race& race) {
    return name(race.first) == "all_reduce" || name(race.second) == "all_reduce";
  }));
}

TEST_CASE("copies of the state are written once, as they are where a run is stopped") {
  for (const Numbers& numbers : {Numbers{.moments = DType::kBF16, .passes = 3, .tied = true},
                                 Numbers{.dtype = DType::kF64}}) {
    INFO(numbers.to_string());
    for (const Placement& placement :
         {Placement{},
          Placement{.timing = UpdateTiming::kOnArrival, .deferred = 1, .resident = 2}}) {
      RunConfig config = save_config(numbers, placement, Staged::kHalf);
      config.run.shard_group = ShardGroup::kNode;
      MemoryFiles stopped(kRunFolder), files(kRunFolder);
      static_cast<void>(train_and_save(config, 4, stopped, {.at_end = true, .steps = 2}, {}, 2));
      const SaveSchedule schedule{
          .after = {2}, .kinds = {.whole = true, .weights = true}, .at_end = true, .steps = 4};
      const SavedRun run = train_and_save(config, 4, files, schedule, {}, 2);
      REQUIRE(run.reports.size() == 4);
      for (const SaveReport& report : run.reports) CHECK(report.failure + report.warning == "");
      CHECK(differences(checkpoint_contents(files, 2, Manifests::kWithout),
                        checkpoint_contents(stopped, 2, Manifests::kWithout)) == "");
      // Two ranks have written, not four.
      MemoryFiles of_two(kRunFolder);
      RunConfig two = config;
      two.run.shard_group = ShardGroup::kAll;
      static_cast<void>(train_and_save(two, 2, of_two, {.at_end = true, .steps = 2}));
      const auto slices = [](const Files& from) {
        std::vector<std::size_t> counts;
        for (const ManifestFile& file :
             read_manifest(from, kCheckpoints / checkpoint_name(2)).files)
          counts.push_back(file.slices.size());
        return counts;
      };
      CHECK(slices(files) == slices(of_two));
    }
  }
}

TEST_CASE("a run on hosts goes on with its bits, and on any other ranks within rounding") {
  const Numbers numbers{.dtype = DType::kF64};
  const std::int64_t from = 2;
  const auto saving = [&](const Sharing& sharing) {
    RunConfig config = config_of(numbers, {}, sharing, 4);
    config.checkpoint = save_config(numbers).checkpoint;
    return config;
  };
  MemoryFiles files(kRunFolder);
  const SavedRun whole =
      train_and_save(saving({4, 2}), 4, files, {.after = {from}, .steps = 4}, {}, 2);
  REQUIRE(whole.reports.size() == 1);
  REQUIRE(whole.reports[0].failure == "");
  for (const Sharing& sharing : {Sharing{4, 2}, Sharing{1, 0}, Sharing{3, 0}, Sharing{2, 1}}) {
    INFO(sharing.ranks << " ranks, on a host " << sharing.on_host);
    const SavedRun resumed = train_and_save(saving(sharing), sharing.ranks, files,
                                            {.from = from, .steps = 4}, {}, sharing.on_host);
    RunResult end = whole.run;
    end.losses.erase(end.losses.begin(), end.losses.begin() + from);
    end.norms.erase(end.norms.begin(), end.norms.begin() + from);
    if (sharing.ranks == 4) CHECK(resumed.run == end);
    CHECK(difference(resumed.run, end) < kTolerance);
  }
}

}  // namespace strata::test
