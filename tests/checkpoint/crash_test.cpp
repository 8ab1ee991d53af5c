// Tests what crashes leave of checkpoints: after every operation of several saves, a deletion and a
// resume, for each choice of what a disk may have lost by then. A committed step is never lost, and
// what has the name of a checkpoint is a whole one.

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/memory_files.h"
#include "checkpoint/small_saves.h"
#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

constexpr std::size_t kSome = kSanitized ? 50 : 5;  ///< one of so many choices is looked at

constexpr std::int64_t kSaves = 3;
constexpr std::int64_t kAgain = 100;  ///< step of the save on what a crash left

/// A run on files in memory, and what it promised when.
struct Story {
  SmallSavesOptions options;
  MemoryFiles files{"/run"};
  /// By step: the number of operations after which the save had returned.
  std::map<std::int64_t, std::size_t> committed;
  std::map<std::int64_t, std::vector<ManifestFile>> expected;  ///< files, by step

  explicit Story(SmallSavesOptions from) : options(std::move(from)) {
    SmallSaves saves(options);
    for (std::int64_t step = 1; step <= kSaves; ++step) save(saves, step);
    // A run that ended in the middle of a save, and one that goes on from what it left.
    static_cast<void>(saves.save(files, kSaves + 1, SmallSaves::Until::kWritten));
    remove_unfinished(files, SmallSaves::kFolder);
    std::vector<std::string> skipped;
    REQUIRE(newest_checkpoint(files, SmallSaves::kFolder, skipped)->manifest.step == kSaves);
    SmallSaves again(options);
    save(again, kSaves + 1);
  }

  void save(SmallSaves& saves, std::int64_t step) {
    for (const SaveReport& report : saves.save(files, step)) {
      INFO(report.failure << report.warning);
      REQUIRE((report.failure.empty() && report.warning.empty()));
    }
    committed[step] = files.operations();
    expected[step] =
        read_manifest(files, std::filesystem::path(SmallSaves::kFolder) / checkpoint_name(step))
            .files;
  }

  [[nodiscard]] std::int64_t committed_at(std::size_t prefix) const {
    std::int64_t last = 0;
    for (const auto& [step, operations] : committed) {
      if (operations <= prefix) last = step;
    }
    return last;
  }

  /// Returns what is wrong with what a crash left, or nothing.
  [[nodiscard]] std::string problem_of(MemoryFiles& left, std::size_t prefix,
                                       bool save_more) const {
    const std::filesystem::path folder = SmallSaves::kFolder;
    for (const std::int64_t step : list_checkpoints(left, folder)) {
      try {
        const Manifest manifest = read_all(left, folder / checkpoint_name(step));
        if (manifest.step != step || manifest.files != expected.at(step)) {
          return "step " + std::to_string(step) + " holds something else";
        }
      } catch (const IoError& error) {
        return error.what();
      }
    }
    remove_unfinished(left, folder);
    std::vector<std::string> skipped;
    const auto found = newest_checkpoint(left, folder, skipped);
    if (!skipped.empty()) return "passed over: " + skipped.front();
    const std::int64_t step = found ? found->manifest.step : 0;
    if (step < committed_at(prefix)) {
      return "step " + std::to_string(committed_at(prefix)) + " was committed, and is lost";
    }
    if (!save_more) return {};
    SmallSavesOptions whole = options;
    whole.leave_out = nullptr;
    for (const SaveReport& report : SmallSaves(whole).save(left, kAgain)) {
      if (!report.failure.empty()) return "the next save failed: " + report.failure;
      if (!report.warning.empty()) return "the next save warned: " + report.warning;
    }
    const auto saved = newest_checkpoint(left, folder, skipped);
    if (!saved || saved->manifest.step != kAgain) return "the next save is not there";
    return {};
  }
};

struct Replay {
  std::size_t seeds = 1;
  std::size_t save_every = 50;  ///< one of so many states is saved into once more
  std::size_t one_of = 1;       ///< one of so many choices is looked at
  std::int64_t save = 0;        ///< crashes come in the save of this step; 0: anywhere
};
struct Replayed {
  std::size_t states = 0;
  std::size_t saves = 0;
  std::string problem;  ///< the first
};

/// Crashes the story after each of its operations, in every way that there is.
Replayed replay(const Story& story, const Replay& how) {
  Replayed all;
  const std::size_t begin = how.save == 0 ? 0 : story.committed.at(how.save - 1);
  const std::size_t end = how.save == 0 ? story.files.operations() : story.committed.at(how.save);
  for (std::size_t prefix = begin; prefix <= end; ++prefix) {
    const std::size_t choices = story.files.crash_choices(prefix);
    for (std::size_t seed = 1; seed <= how.seeds; ++seed) {
      // Only the random sets and torn writes differ from seed to seed.
      for (std::size_t choice = seed == 1 ? 0 : 2; choice < choices; ++choice) {
        if (seed > 1 && choice > 2 && choice + MemoryFiles::kRandomSets < choices) continue;
        if ((prefix + choice) % how.one_of != 0) continue;
        const auto left = story.files.crash_state(prefix, choice, seed);
        const bool save_more = all.states++ % how.save_every == 0;
        if (save_more) ++all.saves;
        std::string problem = story.problem_of(*left, prefix, save_more);
        if (problem.empty()) continue;
        all.problem = "crash behind operation " + std::to_string(prefix);
        if (prefix > 0) all.problem += " (" + story.files.operation(prefix - 1).to_string() + ")";
        all.problem += ", choice " + std::to_string(choice) + ", seed " + std::to_string(seed) +
                       ": " + problem;
        return all;
      }
    }
  }
  return all;
}

SmallSavesOptions options_of(int ranks, std::int64_t keep, std::uint64_t seed = 1) {
  SmallSavesOptions options;
  options.ranks = ranks;
  options.retention.keep = keep;
  options.seed = seed;
  return options;
}

/// Returns the first problem that a crash shows if these syncs are left out.
std::string problem_without(int ranks, std::int64_t keep, LeaveOut leave_out) {
  SmallSavesOptions options = options_of(ranks, keep);
  options.leave_out = std::move(leave_out);
  return replay(Story(options), {.save_every = 1000000}).problem;
}

}  // namespace

TEST_CASE("no crash loses a committed checkpoint or leaves half of one", "[long]") {
  const Replayed replayed = replay(Story(options_of(2, 1)), {.save_every = 20, .one_of = kSome});
  INFO(replayed.states << " states: " << replayed.problem);
  CHECK(replayed.problem.empty());
  CHECK(replayed.states > draws(4000));
}

TEST_CASE("no crash of a save loses the checkpoint before it or leaves half of one") {
  const std::size_t one_of = kSanitized ? 10 : 1;
  const Replayed replayed = replay(Story(options_of(1, 1)), {.one_of = one_of, .save = 2});
  INFO(replayed.states << " states: " << replayed.problem);
  CHECK(replayed.problem.empty());
  CHECK(replayed.states > draws(1000));
}

TEST_CASE("no crash while checkpoints are set aside loses one of them") {
  const std::filesystem::path folder = SmallSaves::kFolder;
  MemoryFiles files("/run");
  SmallSaves saves(options_of(1, 3));
  for (const std::int64_t step : {10, 20, 30}) {
    REQUIRE(saves.save(files, step)[0].failure.empty());
  }
  const std::size_t begin = files.operations();
  REQUIRE(set_aside_later_checkpoints(files, folder, 10).size() == 2);
  for (std::size_t prefix = begin; prefix <= files.operations(); ++prefix) {
    for (std::size_t choice = 0; choice < files.crash_choices(prefix); ++choice) {
      const auto left = files.crash_state(prefix, choice);
      std::vector<std::int64_t> steps;
      for (const std::string& name : left->list(folder)) {
        CHECK((step_of_name(name) || is_abandoned_name(name)));
        steps.push_back(read_all(*left, folder / name).step);
      }
      CHECK(steps == std::vector<std::int64_t>{10, 20, 30});
    }
  }
}

TEST_CASE("no crash of all there are loses a committed checkpoint", "[slow]") {
  for (const auto& [ranks, keep] : {std::pair(1, 1), std::pair(2, 2)}) {
    const Replayed replayed = replay(Story(options_of(ranks, keep)), {});
    INFO(ranks << " ranks, " << replayed.states << " states: " << replayed.problem);
    CHECK(replayed.problem.empty());
    CHECK(replayed.states > 20000);
  }
}

TEST_CASE("no crash loses a committed checkpoint whatever the order of the ranks", "[slow]") {
  for (const int ranks : {1, 2, 4}) {
    for (const std::int64_t keep : {1, 2}) {
      const auto seed = static_cast<std::uint64_t>(10 * ranks + keep);
      const Replayed replayed =
          replay(Story(options_of(ranks, keep, seed)), {.seeds = 2, .save_every = 20});
      INFO(ranks << " ranks, keep " << keep << ", " << replayed.states
                 << " states: " << replayed.problem);
      CHECK(replayed.problem.empty());
    }
  }
}

TEST_CASE("the same seed has the ranks' operations in the same order") {
  const Story first(options_of(2, 1, 5));
  const Story second(options_of(2, 1, 5));
  REQUIRE(first.files.operations() == second.files.operations());
  for (std::size_t i = 0; i < first.files.operations(); ++i) {
    REQUIRE(first.files.operation(i).to_string() == second.files.operation(i).to_string());
  }
}

TEST_CASE("each sync that a save leaves out is found by a crash", "[long]") {
  if (kSanitized) return;  // what is found is a test that fails, and no fault of the program
  const auto folder_named = [](const std::string& name) {
    return [name](SyncOf of, const std::filesystem::path& path) {
      return of == SyncOf::kFolder && path.filename() == name;
    };
  };
  const auto file_named = [](const std::string& name) {
    return [name](SyncOf of, const std::filesystem::path& path) {
      return of != SyncOf::kFolder && path.filename() == name;
    };
  };
  const auto temporary = [](SyncOf of, const std::filesystem::path& path) {
    return of == SyncOf::kFolder && path.filename().string().starts_with(kTemporaryPrefix);
  };
  // That of the folder of all checkpoints comes after a rename to a name of a checkpoint, and after
  // one away from it: the n-th of them alone is left out.
  const auto nth_of_folder = [](int n) {
    return [n, count = 0](SyncOf of, const std::filesystem::path& path) mutable {
      return of == SyncOf::kFolder && path == SmallSaves::kFolder && count++ == n;
    };
  };
  const std::map<std::string, LeaveOut> all{
      {"the shares", [](SyncOf of, const auto&) { return of == SyncOf::kShare; }},
      {"the manifest", file_named("manifest.json")},
      {"config.json", file_named("config.json")},
      {"the index", file_named("model.safetensors.index.json")},
      {"model/", folder_named("model")},
      {"state/", folder_named("state")},
      {"the temporary folder", temporary},
      {"the folder of checkpoints, made", folder_named("run")},
      {"the folder of checkpoints, after a commit", nth_of_folder(0)},
      {"the folder of checkpoints, before a deletion", nth_of_folder(2)},
  };
  for (const auto& [name, leave_out] : all) {
    INFO(name);
    CHECK_FALSE(problem_without(1, 1, leave_out).empty());
  }
}

TEST_CASE("on one machine the sync of a share is also one of what was written before it",
          "[long]") {
  const LeaveOut headers = [](SyncOf of, const std::filesystem::path& path) {
    return of == SyncOf::kCreated && path.extension() == ".safetensors";
  };
  SmallSavesOptions options = options_of(2, 1);
  options.leave_out = headers;
  CHECK(replay(Story(options), {.save_every = 1000000, .one_of = kSome}).problem == "");
}

}  // namespace strata::test
