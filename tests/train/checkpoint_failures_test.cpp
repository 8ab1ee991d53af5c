// Makes the files of saves fail, each operation once and for good: training must not notice, the
// report must say what failed, nothing may be left, and the next save must work.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "strata/base/error.h"
#include "strata/checkpoint/disk_probe.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr std::size_t kNever = SIZE_MAX;

/// Submits a step whose state is saved, and returns what came of it. Ranks call it, each in a
/// thread, so it checks nothing: Catch2 counts without a lock.
SaveReport save_step(Session& session, std::int64_t step) {
  const RunConfig& config = session.config();
  if (!session.submit(step, config.optimizer.lr, {.whole = true}).any()) {
    throw std::logic_error("a save is late");
  }
  session.synchronize();
  session.checkpoints()->wait();
  return session.checkpoints()->take_reports().at(0);
}

std::map<std::string, std::vector<double>> trained(const RunConfig& config, std::int64_t steps) {
  const auto self = make_self_ranks();
  Session session(config, *self);
  for (std::int64_t step = 0; step < steps; ++step) session.submit(step, config.optimizer.lr);
  session.synchronize();
  return gather_weights(session.state(), *self);
}

/// Trains a step for every operation of a save, which fails in this step's save. Returns how many
/// there are.
std::size_t fail_each(const RunConfig& config, std::size_t every, int error) {
  MemoryFiles files(kRunFolder);
  const auto self = make_self_ranks();
  Session session(config, *self, hooks_of(files));
  std::int64_t step = 0;
  REQUIRE(save_step(session, step++).failure == "");  // makes the folder too
  const std::size_t begin = files.operations();
  REQUIRE(save_step(session, step++).failure == "");
  const std::size_t operations = files.operations() - begin;
  std::int64_t newest = step;
  for (std::size_t i = 0; i < operations; i += every) {
    const std::size_t failing = files.operations() + i;
    INFO("operation " << i << " of " << operations << ", " << std::strerror(error));
    const FolderContents before = checkpoint_contents(files, newest);
    files.fail_at(failing, error);
    const SaveReport report = save_step(session, step++);
    REQUIRE(files.operations() > failing);
    INFO(files.operation(failing).to_string());
    CHECK(report.step == step);
    CHECK(report.folder == kCheckpoints / checkpoint_name(step));
    const bool committed = report.failure.empty();
    const std::string said = committed ? report.warning : report.failure;
    CHECK_THAT(said, ContainsSubstring(std::strerror(error)));
    CHECK_THAT(said, ContainsSubstring(files.operation(failing).path.string()));
    // What is committed was, before something failed that only cleans up.
    CHECK((files.kind(report.folder) == Files::Kind::kFolder) == committed);
    if (committed) {
      newest = step;
    } else {
      CHECK(report.warning == "");
      CHECK(checkpoint_contents(files, newest) == before);
      for (const std::string& name : files.list(kCheckpoints)) {
        CHECK(!name.starts_with(kTemporaryPrefix));
      }
    }
    static_cast<void>(read_manifest(files, kCheckpoints / checkpoint_name(newest)));
  }
  CHECK(save_step(session, step++).failure == "");
  remove_unfinished(files, kCheckpoints);
  CHECK(files.list(kCheckpoints) ==
        std::vector<std::string>{checkpoint_name(newest), checkpoint_name(step)});
  CHECK(gather_weights(session.state(), *self) == trained(config, step));
  return operations;
}

RunConfig failing_config(const Placement& placement, Staged staged) {
  RunConfig config = save_config({.moments = DType::kBF16}, placement, staged);
  config.checkpoint.keep = 2;
  config.optimizer.lr = 1e-4;  // many steps
  return config;
}

}  // namespace

TEST_CASE("an operation of a save that fails fails the save and nothing else") {
  CHECK(fail_each(failing_config({}, Staged::kNone), 3, ENOSPC) > 50);
  CHECK(fail_each(failing_config({.resident = 2, .interleave = 0.5}, Staged::kHalf), 5, EIO) > 50);
}

TEST_CASE("each operation of a save may fail", "[slow]") {
  const Numbers numbers{.moments = DType::kBF16};
  for (const int error : {ENOSPC, EIO, EROFS}) {
    for (const Placement& placement : placements_of(numbers)) {
      INFO(placement.to_string());
      CHECK(fail_each(failing_config(placement, error == EIO ? Staged::kAll : Staged::kNone), 1,
                      error) > 50);
    }
  }
}

TEST_CASE("a disk that fails for good costs checkpoints and nothing else") {
  const RunConfig config = failing_config({.resident = 1, .interleave = 0.5}, Staged::kHalf);
  MemoryFiles files(kRunFolder);
  const auto self = make_self_ranks();
  Session session(config, *self, hooks_of(files));
  std::int64_t step = 0;
  REQUIRE(save_step(session, step++).failure == "");
  const FolderContents before = checkpoint_contents(files, 1);
  for (const std::size_t later : {0, 1, 7, 40, 60}) {
    INFO("from operation " << later << " on");
    files.fail_from(files.operations() + later, EIO);
    const SaveReport failed = save_step(session, step++);
    CHECK_THAT(failed.failure, ContainsSubstring(std::strerror(EIO)));
    const SaveReport again = save_step(session, step++);
    CHECK_THAT(again.failure, ContainsSubstring(std::strerror(EIO)));
    files.fail_from(kNever, 0);
    CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{1});
    CHECK(checkpoint_contents(files, 1) == before);
    remove_unfinished(files, kCheckpoints);
    CHECK(files.list(kCheckpoints).size() == 1);
  }
  CHECK(save_step(session, step++).failure == "");
  CHECK(gather_weights(session.state(), *self) == trained(config, step));
}

TEST_CASE("a full disk costs checkpoints until there is room again") {
  const RunConfig config = failing_config({}, Staged::kNone);
  MemoryFiles files(kRunFolder);
  const auto self = make_self_ranks();
  Session session(config, *self, hooks_of(files));
  const SaveReport first = save_step(session, 0);
  REQUIRE(first.failure == "");
  files.set_capacity(first.bytes * 3 / 2);
  const SaveReport full = save_step(session, 1);
  CHECK_THAT(full.failure, ContainsSubstring(std::strerror(ENOSPC)));
  CHECK(files.list(kCheckpoints) == std::vector<std::string>{checkpoint_name(1)});
  files.set_capacity(first.bytes * 4);
  CHECK(save_step(session, 2).failure == "");
}

TEST_CASE("a start tests the disks that saves go to, each once") {
  RunConfig config = save_config({});
  const auto probed = [&](MemoryFiles& files) {
    const std::size_t before = files.operations();
    const auto self = make_self_ranks();
    const Session session(config, *self, hooks_of(files));
    std::vector<std::filesystem::path> folders;
    for (std::size_t i = before; i < files.operations(); ++i) {
      const MemoryFiles::Operation operation = files.operation(i);
      if (operation.change != MemoryFiles::Change::kCreate) continue;
      if (operation.path.filename().string().starts_with(kProbePrefix)) {
        folders.push_back(operation.path.parent_path());
      }
    }
    return folders;
  };
  using Folders = std::vector<std::filesystem::path>;
  MemoryFiles files(kRunFolder);
  CHECK(probed(files) == Folders{kRunFolder});
  files.make_folder(kCheckpoints);
  CHECK(probed(files) == Folders{kCheckpoints});
  config.checkpoint.weights_every_steps = 1;
  CHECK(probed(files) == Folders{kCheckpoints, kRunFolder});
  files.make_folder(kRunFolder / kWeightsName);
  CHECK(probed(files) == Folders{kCheckpoints, kRunFolder / kWeightsName});
}

TEST_CASE("a failure on one rank fails the save of all ranks") {
  for (const int ranks : {2, 4}) {
    for (const int failing : {0, ranks - 1}) {
      INFO(ranks << " ranks, of which " << failing << " fails");
      const Numbers numbers{.ranks = ranks};
      const RunConfig config = save_config(numbers);
      MemoryFiles memory(kRunFolder);
      std::mutex mutex;
      std::vector<std::vector<SaveReport>> reports(static_cast<std::size_t>(ranks));
      RunResult run;
      run_ranks(ranks, [&](Ranks& group) {
        std::atomic<bool> broken = false;
        HookedFiles files(memory, [&] {
          if (broken) throw IoError("/run/broken: write: " + std::string(std::strerror(EIO)));
        });
        Session session(config, group, hooks_of(files));
        std::vector<SaveReport> own;
        for (std::int64_t step = 0; step < 3; ++step) {
          broken = step == 1 && group.rank() == failing;
          own.push_back(save_step(session, step));
        }
        auto weights = gather_weights(session.state(), group);
        const std::lock_guard lock(mutex);
        reports[static_cast<std::size_t>(group.rank())] = own;
        if (group.rank() == 0) run.weights = std::move(weights);
      });
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& own = reports[static_cast<std::size_t>(rank)];
        CHECK(own[0].failure == "");
        CHECK_THAT(own[1].failure, ContainsSubstring(std::strerror(EIO)));
        CHECK((own[1].failure.find("rank " + std::to_string(failing)) != std::string::npos) ==
              (rank != failing));
        CHECK(own[2].failure == "");
      }
      CHECK(memory.list(kCheckpoints) ==
            std::vector<std::string>{checkpoint_name(1), checkpoint_name(3)});
      RunConfig plain = config;
      plain.run.steps = 3;
      CHECK(run.weights == run_session(plain, ranks).weights);
    }
  }
}

TEST_CASE("a run that fails while a checkpoint is written ends, and leaves no half of one") {
  for (const Staged staged : {Staged::kNone, Staged::kAll}) {
    INFO(to_string(staged));
    const RunConfig config = save_config(
        {.dtype = DType::kF64}, {.timing = UpdateTiming::kOnArrival, .deferred = 1}, staged);
    MemoryFiles memory(kRunFolder);
    // The save is most likely under way then; the checks hold for one that has ended as well.
    HookedFiles files(memory, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    const auto fail = [&] {
      const auto self = make_self_ranks();
      Session session(config, *self, hooks_of(files));
      session.submit(0, config.optimizer.lr);
      session.submit(1, config.optimizer.lr, {.whole = true});
      session.device().stream(Lane::kHost).host_task("fail", {}, {}, [] {
        throw NumericalError("made to fail");
      });
      session.submit(2, config.optimizer.lr);
      session.submit(3, config.optimizer.lr);
      session.synchronize();
    };
    CHECK_THROWS_WITH(fail(), ContainsSubstring("made to fail"));
    remove_unfinished(memory, kCheckpoints);
    std::vector<std::string> left;
    if (memory.kind(kCheckpoints) == Files::Kind::kFolder) left = memory.list(kCheckpoints);
    for (const std::string& name : left) {
      CHECK(name == checkpoint_name(2));
      static_cast<void>(read_manifest(memory, kCheckpoints / name));
    }
  }
}

}  // namespace strata::test
