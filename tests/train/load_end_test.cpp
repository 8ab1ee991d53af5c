// A load that ends before its end, since a file cannot be read on one rank or the run is told to
// stop: it ends on all ranks alike, wherever it was, and leaves a checkpoint that can be loaded.

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "strata/base/stop_signals.h"
#include "strata/launch/rank_agreement.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kStep = 1;

/// Returns the files of a run that has saved a step.
std::unique_ptr<MemoryFiles> saved(const RunConfig& config) {
  auto files = std::make_unique<MemoryFiles>(kRunFolder);
  const SavedRun run = train_and_save(config, kRanks, *files, {.at_end = true, .steps = kStep});
  REQUIRE(run.reports.at(0).failure == "");
  return files;
}

/// What the loads of all ranks did.
struct Loads {
  std::vector<std::string> errors;  ///< by rank; empty: it was loaded
  std::size_t reads = 0;            ///< of rank 1
};

/// Loads on all ranks, each from files of its own; on rank 1 the read `failing` fails. `may_end` is
/// called with the rank.
Loads load(const MemoryFiles& files, const RunConfig& config, std::size_t failing,
           const std::function<void(int rank)>& may_end) {
  std::mutex mutex;
  Loads loads{.errors = std::vector<std::string>(kRanks)};
  run_ranks(kRanks, [&](Ranks& group) {
    std::unique_ptr<MemoryFiles> own;
    {
      const std::lock_guard lock(mutex);
      own = files.crash_state(files.operations(), 0);  // all of it
    }
    SessionHooks hooks = hooks_of(*own, kStep);
    hooks.may_end = [&] { may_end(group.rank()); };
    const std::size_t before = own->reads();
    if (group.rank() == 1) own->fail_read_at(before + failing, EIO);
    std::string error;
    try {
      const Session session(config, group, hooks);
    } catch (const AgreedError& refused) {
      CHECK(refused.exit_code() == 2);
      error = refused.what();
    } catch (const Interrupted& interrupted) {
      error = interrupted.what();
    }
    const std::lock_guard lock(mutex);
    loads.errors[static_cast<std::size_t>(group.rank())] = error;
    if (group.rank() == 1) loads.reads = own->reads() - before;
  });
  return loads;
}

}  // namespace

TEST_CASE("a read that fails on one rank ends the load of all of them, whichever read it is") {
  const RunConfig config = save_config({.ranks = kRanks});
  const std::unique_ptr<MemoryFiles> files = saved(config);
  const auto go_on = [](int) {};
  const Loads whole = load(*files, config, SIZE_MAX, go_on);
  REQUIRE(whole.errors == std::vector<std::string>(kRanks));
  REQUIRE(whole.reads > 50);
  for (std::size_t read = 0; read < whole.reads; read += 3) {
    INFO("read " << read << " of " << whole.reads);
    const Loads failed = load(*files, config, read, go_on);
    CHECK(failed.errors[0] == failed.errors[1]);
    CHECK_THAT(failed.errors[0], ContainsSubstring("rank 1: ") &&
                                     ContainsSubstring(checkpoint_name(kStep)) &&
                                     ContainsSubstring("Input/output error"));
  }
}

TEST_CASE("a load that may end between its blocks ends there on all ranks") {
  const RunConfig config = save_config({.ranks = kRanks});
  const std::unique_ptr<MemoryFiles> files = saved(config);
  std::array<int, kRanks> calls{};
  const auto end_at = [&](int call) {
    calls = {};
    return [&calls, call](int rank) {
      if (++calls[static_cast<std::size_t>(rank)] == call) throw Interrupted(SIGTERM);
    };
  };
  const Loads whole = load(*files, config, SIZE_MAX, end_at(0));
  REQUIRE(whole.errors == std::vector<std::string>(kRanks));
  const int all = calls[0];
  CHECK(calls[1] == all);
  CHECK(all > 8);  // 6 blocks
  std::size_t least = SIZE_MAX;
  for (int call = 1; call <= all; ++call) {
    const Loads ended = load(*files, config, SIZE_MAX, end_at(call));
    CHECK(ended.errors == std::vector<std::string>(kRanks, "ended by SIGTERM"));
    least = std::min(least, ended.reads);
    CHECK(ended.reads <= whole.reads);
  }
  CHECK(least < whole.reads / 2);
}

}  // namespace strata::test
