// Tests what becomes of a save when the disk refuses one of its operations, each of them once: the
// save says why, what was there before is still there, and the next one works.

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoint/memory_files.h"
#include "checkpoint/small_saves.h"
#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "support/catch.h"
#include "support/sanitized.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

constexpr std::array kErrors{ENOSPC, EIO, EROFS};

SmallSavesOptions on_ranks(int ranks) {
  SmallSavesOptions options;
  options.ranks = ranks;
  return options;
}

/// Files with `before` checkpoints, and the saves that made them.
struct Begun {
  explicit Begun(int ranks, std::int64_t before) : saves(on_ranks(ranks)) {
    for (std::int64_t step = 1; step <= before; ++step) {
      for (const SaveReport& report : saves.save(files, step)) REQUIRE(report.failure.empty());
    }
  }
  MemoryFiles files{"/run"};
  SmallSaves saves;
};

/// Returns how many operations the save has that follows on `before` others.
std::size_t operations_of_save(int ranks, std::int64_t before) {
  Begun run(ranks, before);
  const std::size_t first = run.files.operations();
  static_cast<void>(run.saves.save(run.files, before + 1));
  return run.files.operations() - first;
}

/// Returns the steps of the checkpoints, all of which are whole.
std::vector<std::int64_t> whole_steps(const Files& files) {
  const fs::path folder = SmallSaves::kFolder;
  std::vector<std::int64_t> steps = list_checkpoints(files, folder);
  for (const std::int64_t step : steps) {
    CHECK_NOTHROW(read_all(files, folder / checkpoint_name(step)));
  }
  return steps;
}

/// Returns what is in the folder of checkpoints under other names than theirs.
std::vector<std::string> leftovers(const Files& files) {
  std::vector<std::string> names = files.list(SmallSaves::kFolder);
  std::erase_if(names, [](const std::string& name) { return step_of_name(name).has_value(); });
  return names;
}

bool is_sync(const MemoryFiles::Operation& operation) {
  return operation.change == MemoryFiles::Change::kSync ||
         operation.change == MemoryFiles::Change::kSyncFolder;
}

/// Returns whether a later sync was of what this one, which failed, was of.
bool retried(const MemoryFiles& files, std::size_t failed) {
  const MemoryFiles::Operation first = files.operation(failed);
  for (std::size_t i = failed + 1; is_sync(first) && i < files.operations(); ++i) {
    const MemoryFiles::Operation later = files.operation(i);
    if (is_sync(later) && later.path == first.path) return true;
  }
  return false;
}

using Texts = std::vector<std::string>;
using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a save that is refused any operation says which, and harms nothing", "[long]") {
  for (const int ranks : {1, 2}) {
    for (const std::int64_t before : {0, 1}) {
      const std::size_t operations = operations_of_save(ranks, before);
      for (std::size_t i = 0; i < operations; ++i) {
        const int error = kErrors[i % kErrors.size()];
        Begun run(ranks, before);
        const std::uint64_t free = run.files.free_bytes("/").value();
        const std::size_t at = run.files.operations() + i;
        run.files.fail_at(at, error);
        const std::vector<SaveReport> reports = run.saves.save(run.files, before + 1);
        const MemoryFiles::Operation failed = run.files.operation(at);
        INFO(ranks << " ranks, " << before << " before, " << failed.to_string() << "\n"
                   << reports[0].failure << "\n"
                   << reports[0].warning);
        if (ranks == 1) CHECK_FALSE(retried(run.files, at));  // the others have not heard of it
        const std::string why = std::generic_category().message(error);
        if (reports[0].failure.empty()) {
          CHECK_THAT(reports[0].warning,
                     ContainsSubstring(failed.path.string() + ": ") && ContainsSubstring(why));
          CHECK(before == 1);  // only a deletion may fail
          CHECK(whole_steps(run.files).back() == 2);
        } else {
          for (const SaveReport& report : reports) {
            CHECK_THAT(report.failure,
                       ContainsSubstring(failed.path.string() + ": ") && ContainsSubstring(why));
          }
          CHECK(reports[0].warning.empty());
          CHECK(whole_steps(run.files) == (before == 0 ? Steps{} : Steps{1}));
          if (before == 1) CHECK(leftovers(run.files) == Texts{});
          CHECK(run.files.free_bytes("/") == free);
        }
        for (const SaveReport& report : run.saves.save(run.files, before + 2)) {
          CHECK(report.failure + report.warning == "");
        }
        CHECK(whole_steps(run.files).back() == before + 2);
        remove_unfinished(run.files, SmallSaves::kFolder);
        CHECK(leftovers(run.files) == Texts{});
      }
    }
  }
}

TEST_CASE("what a failed sync was of is not trusted again", "[one_thread][long]") {
  constexpr std::size_t kStride = kSanitized ? 3 : 1;  // of the choices that a crash has
  for (const std::int64_t before : {0, 1}) {
    const std::size_t operations = operations_of_save(1, before);
    for (std::size_t i = 0; i < operations; ++i) {
      Begun run(1, before);
      const std::size_t at = run.files.operations() + i;
      run.files.fail_at(at, EIO);
      const bool committed = run.saves.save(run.files, before + 1)[0].failure.empty();
      if (!is_sync(run.files.operation(at))) continue;
      const std::size_t end = run.files.operations();
      REQUIRE(run.saves.save(run.files, before + 2)[0].failure.empty());
      INFO(before << " before, " << run.files.operation(at).to_string());
      for (const std::size_t prefix : {end, run.files.operations()}) {
        const std::int64_t last = prefix > end ? before + 2 : committed ? before + 1 : before;
        for (std::size_t choice = 0; choice < run.files.crash_choices(prefix); choice += kStride) {
          const auto left = run.files.crash_state(prefix, choice);
          std::vector<std::string> skipped;
          const auto found = newest_checkpoint(*left, SmallSaves::kFolder, skipped);
          INFO("choice " << choice);
          REQUIRE((found ? found->manifest.step : 0) >= last);
          if (found) REQUIRE_NOTHROW(read_all(*left, found->folder));
        }
      }
    }
  }
}

TEST_CASE("a disk that fails from any operation on leaves what was committed") {
  for (const int ranks : {1, 2}) {
    const std::size_t operations = operations_of_save(ranks, 1);
    for (std::size_t i = 0; i < operations; ++i) {
      Begun run(ranks, 1);
      const std::size_t at = run.files.operations() + i;
      run.files.fail_from(at, EIO);
      const std::vector<SaveReport> reports = run.saves.save(run.files, 2);
      INFO(run.files.operation(at).to_string() << "\n"
                                               << reports[0].failure << "\n"
                                               << reports[0].warning);
      CHECK(reports[0].failure + reports[0].warning != "");
      const auto mended = run.files.crash_state(run.files.operations(), 0);
      remove_unfinished(*mended, SmallSaves::kFolder);
      CHECK(leftovers(*mended) == Texts{});
      CHECK(whole_steps(*mended).back() >= 1);
      CHECK(run.saves.save(*mended, 3)[0].failure.empty());
      CHECK(whole_steps(*mended) == Steps{3});
    }
  }
}

TEST_CASE("a disk that is full at any byte fails the save and is as free as before",
          "[one_thread]") {
  Begun full(1, 2);
  const std::uint64_t used = (std::uint64_t{1} << 40) - full.files.free_bytes("/").value();
  for (std::uint64_t room = 0; room < used; room += 1000) {
    Begun run(1, 1);
    const std::uint64_t before = run.files.free_bytes("/").value();
    run.files.set_capacity((std::uint64_t{1} << 40) - before + room);
    const SaveReport report = run.saves.save(run.files, 2)[0];
    INFO(room << " bytes of room: " << report.failure);
    CHECK_THAT(report.failure, ContainsSubstring("No space left on device"));
    CHECK(whole_steps(run.files) == Steps{1});
    CHECK(run.files.free_bytes("/") == room);
    run.files.set_capacity(std::uint64_t{1} << 40);
    CHECK(run.saves.save(run.files, 3)[0].failure.empty());
  }
}

TEST_CASE("a read that fails while old checkpoints go costs a warning") {
  Begun run(1, 1);
  const std::size_t first = run.files.reads();
  REQUIRE(run.saves.save(run.files, 2)[0].failure.empty());
  const std::size_t reads = run.files.reads() - first;
  REQUIRE(reads > 0);
  for (std::size_t i = 0; i < reads; ++i) {
    Begun again(1, 1);
    again.files.fail_read_at(again.files.reads() + i, EIO);
    const SaveReport report = again.saves.save(again.files, 2)[0];
    INFO("read " << i << ": " << report.warning);
    CHECK(report.failure.empty());
    CHECK(whole_steps(again.files).back() == 2);
    REQUIRE(again.saves.save(again.files, 3)[0].failure.empty());
    CHECK(whole_steps(again.files).back() == 3);
  }
}

TEST_CASE("a save takes the place of what has its step's name") {
  MemoryFiles files("/run");
  SmallSavesOptions options;
  options.retention.keep = 2;
  SmallSaves saves(options);
  REQUIRE(saves.save(files, 1)[0].failure.empty());
  REQUIRE(saves.save(files, 2)[0].failure.empty());
  const fs::path second = fs::path(SmallSaves::kFolder) / checkpoint_name(2);
  files.remove(second / kManifestName);  // damaged, so a run goes on from step 1
  const SaveReport report = saves.save(files, 2)[0];
  CHECK(report.failure + report.warning == "");
  CHECK(whole_steps(files) == Steps{1, 2});
  CHECK(leftovers(files) == Texts{});
}

TEST_CASE("a save that cannot take the place of another leaves that one there") {
  Begun all(1, 2);
  const std::size_t first = all.files.operations();
  REQUIRE(all.saves.save(all.files, 2)[0].failure.empty());
  const std::size_t operations = all.files.operations() - first;
  for (std::size_t i = 0; i < operations; ++i) {
    Begun run(1, 2);
    const std::size_t at = run.files.operations() + i;
    run.files.fail_at(at, EIO);
    const SaveReport report = run.saves.save(run.files, 2)[0];
    INFO(run.files.operation(at).to_string() << "\n" << report.failure << "\n" << report.warning);
    CHECK(report.failure + report.warning != "");
    CHECK(whole_steps(run.files) == Steps{2});
    if (!report.failure.empty()) CHECK(leftovers(run.files) == Texts{});
  }
}

TEST_CASE("the first save of a run that goes on removes all that is too many") {
  MemoryFiles files("/run");
  SmallSavesOptions options;
  options.retention.keep = 10;  // as if the process had always died before it removed any
  SmallSaves before(options);
  for (const std::int64_t step : {10, 20, 30, 40}) {
    REQUIRE(before.save(files, step)[0].failure.empty());
  }
  options.retention.keep = 2;
  SmallSaves saves(options);
  REQUIRE(saves.save(files, 50, SmallSaves::Until::kWritten)[0].failure.empty());
  CHECK(whole_steps(files) == Steps{10, 20, 30, 40});
  remove_unfinished(files, SmallSaves::kFolder);
  REQUIRE(saves.save(files, 50)[0].failure.empty());
  CHECK(whole_steps(files) == Steps{40, 50});
}

TEST_CASE("a run that goes back sets later checkpoints aside, and retention does not count them") {
  MemoryFiles files("/run");
  const std::filesystem::path folder = SmallSaves::kFolder;
  SmallSavesOptions options;
  options.retention.keep = 2;
  SmallSaves saves(options);
  std::vector<std::string> skipped;
  const auto newest = [&] { return newest_checkpoint(files, folder, skipped)->manifest.step; };
  for (const std::int64_t step : {10, 20, 30}) {
    REQUIRE(saves.save(files, step)[0].failure.empty());
  }
  const std::filesystem::path aside = folder / "step-00000030.abandoned";
  CHECK(set_aside_later_checkpoints(files, folder, 30).empty());
  CHECK(set_aside_later_checkpoints(files, folder, 20) == std::vector{aside});
  CHECK(newest() == 20);  // before anything new is committed
  for (const std::int64_t step : {25, 30, 35}) {
    REQUIRE(saves.save(files, step)[0].failure.empty());
    CHECK(newest() == step);
  }
  CHECK(whole_steps(files) == Steps{30, 35});
  CHECK(read_all(files, aside).step == 30);
  // Going back again does not write over what was set aside first.
  REQUIRE(set_aside_later_checkpoints(files, folder, 20) ==
          std::vector{folder / "step-00000035.abandoned", folder / "step-00000030.abandoned-2"});
  CHECK(list_checkpoints(files, folder).empty());
  CHECK(read_all(files, folder / "step-00000030.abandoned-2").step == 30);
  for (const std::string& name : files.list(folder)) CHECK(is_abandoned_name(name));
}

TEST_CASE("retention leaves later checkpoints alone") {
  MemoryFiles files("/run");
  SmallSaves saves(on_ranks(1));
  REQUIRE(saves.save(files, 30)[0].failure.empty());
  REQUIRE(saves.save(files, 25)[0].failure.empty());
  CHECK(whole_steps(files) == Steps{25, 30});
}

TEST_CASE("milestones stay, and do not count as kept") {
  const auto left = [](const Steps& steps) {
    MemoryFiles files("/run");
    SmallSavesOptions options;
    options.retention = {.keep = 2, .milestone_steps = 10};
    SmallSaves saves(options);
    for (const std::int64_t step : steps) REQUIRE(saves.save(files, step)[0].failure.empty());
    return whole_steps(files);
  };
  CHECK(left({2, 4, 6, 8}) == Steps{6, 8});
  CHECK(left({4, 8, 10}) == Steps{4, 8, 10});
  CHECK(left({4, 8, 10, 12, 16, 20, 24}) == Steps{10, 16, 20, 24});
  CHECK(left({8, 13, 16, 18, 19, 22, 31}) == Steps{13, 18, 19, 22, 31});  // saved late
  CHECK(left({10, 20, 30, 40}) == Steps{10, 20, 30, 40});
}

}  // namespace strata::test
