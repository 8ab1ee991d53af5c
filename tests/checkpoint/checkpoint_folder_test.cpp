// Tests what is taken for a folder of checkpoints, and that nothing is passed over or removed that
// cannot be read.

#include "strata/checkpoint/checkpoint_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/file_places.h"
#include "checkpoint/memory_files.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "support/catch.h"
#include "support/exchanged_link.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

const fs::path kFolder = "/run";

/// Writes a checkpoint of no files, behind a good step or a bad one.
void add(Files& files, std::int64_t step, bool good = true, const fs::path& saves = kFolder) {
  Manifest manifest;
  manifest.step = step;
  manifest.finite = good;
  const fs::path folder = saves / checkpoint_name(step);
  files.make_folder(folder);
  write_whole(files, folder / kManifestName, bytes_of(manifest.to_string()));
}

/// Writes one whose own validation had this loss.
void add_validated(Files& files, std::int64_t step, double loss) {
  Manifest manifest;
  manifest.step = step;
  manifest.validations.add(step, loss);
  const fs::path folder = kFolder / checkpoint_name(step);
  files.make_folder(folder);
  write_whole(files, folder / kManifestName, bytes_of(manifest.to_string()));
}

fs::path manifest_of(std::int64_t step) { return kFolder / checkpoint_name(step) / kManifestName; }

}  // namespace

TEST_CASE("a link to the folder of checkpoints is followed, and no entry is an empty one") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  const fs::path folder = scratch.path() / "checkpoints";
  CHECK_FALSE(has_save_folder(*files, folder));
  CHECK(list_checkpoints(*files, folder).empty());
  fs::create_directories(scratch.path() / "disk" / checkpoint_name(5));
  fs::create_directory_symlink(scratch.path() / "disk", folder);
  CHECK(has_save_folder(*files, folder));
  CHECK(list_checkpoints(*files, folder) == Steps{5});
  fs::create_directories(scratch.path() / "disk" / (std::string(kTemporaryPrefix) + "step"));
  remove_unfinished(*files, folder);
  CHECK(files->list(scratch.path() / "disk") == std::vector<std::string>{checkpoint_name(5)});
  CHECK(set_aside_later_checkpoints(*files, folder, 4).size() == 1);
}

TEST_CASE("what has the name of the folder of checkpoints and is none is named") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  const fs::path folder = scratch.path() / "checkpoints";
  const auto said = [&] {
    const std::string text = io_error_of([&] { (void)list_checkpoints(*files, folder); });
    CHECK(io_error_of([&] { remove_unfinished(*files, folder); }) == text);
    CHECK(text.starts_with(folder.string() + ": a folder of checkpoints is expected here"));
    CHECK_THAT(text, ContainsSubstring("remove or rename"));
    fs::remove(folder);
    return text;
  };
  write_whole(*files, folder, bytes_of("x"));
  CHECK_THAT(said(), ContainsSubstring("this is a file"));
  for (const fs::path& target : {scratch.path() / "unmounted", fs::path("/dev/null")}) {
    fs::create_symlink(target, folder);
    CHECK_THAT(said(), ContainsSubstring("nor does it lead to one; mount the disk"));
  }
  REQUIRE(::mkfifo(folder.c_str(), 0600) == 0);
  CHECK_THAT(said(), ContainsSubstring("nor does it lead to one; mount the disk"));
  fs::create_symlink("checkpoints", folder);
  CHECK_THAT(said(), ContainsSubstring("Too many levels of symbolic links"));
}

TEST_CASE("a folder of checkpoints that cannot be looked at is not empty") {
  for (const int error : {EACCES, EIO, ESTALE, EMFILE}) {
    MemoryFiles files(kFolder);
    add(files, 5);
    files.hide(kFolder, error);
    CHECK_THAT(io_error_of([&] { (void)list_checkpoints(files, kFolder); }),
               ContainsSubstring("/run: look at: " + std::generic_category().message(error)));
  }
}

TEST_CASE("a newer checkpoint that cannot be read is an error, a damaged one is passed over") {
  MemoryFiles files(kFolder);
  for (const std::int64_t step : {5, 10, 15}) add(files, step);
  files.remove(manifest_of(15));
  std::vector<std::string> skipped;
  CHECK(newest_checkpoint(files, kFolder, skipped)->manifest.step == 10);
  CHECK(skipped.size() == 1);
  files.hide(manifest_of(10), EMFILE);
  CHECK_THAT(io_error_of([&] { (void)newest_checkpoint(files, kFolder, skipped); }),
             ContainsSubstring(manifest_of(10).string()) &&
                 ContainsSubstring("Too many open files; raise the limit"));
  CHECK(newest_checkpoint(files, kFolder, skipped, 10)->manifest.step == 5);  // is not looked at
}

TEST_CASE("nothing is removed while it cannot be read which checkpoint is good") {
  for (const std::int64_t hidden : {10, 20, 30}) {
    MemoryFiles files(kFolder);
    add(files, 10);
    for (const std::int64_t step : {20, 30}) add(files, step, false);
    add(files, 5);
    files.hide(manifest_of(hidden), EIO);
    INFO(hidden);
    CHECK_THAT(io_error_of([&] { (void)remove_old_checkpoints(files, kFolder, 30, {.keep = 1}); }),
               ContainsSubstring(manifest_of(hidden).string()));
    CHECK(list_checkpoints(files, kFolder) == Steps{5, 10, 20, 30});
  }
  MemoryFiles files(kFolder);
  for (const std::int64_t step : {10, 20, 30}) add(files, step);
  files.hide(manifest_of(10), EIO);  // too old to matter
  CHECK(remove_old_checkpoints(files, kFolder, 30, {.keep = 2}) == Steps{10});
}

TEST_CASE("a checkpoint that is exchanged for a link while it goes takes nothing outside along") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  const fs::path folder = scratch.path() / "saves";
  fs::create_directories(folder);
  add(*files, 20, true, folder);
  std::size_t removed = 0;
  test::require_nothing_outside_removed(scratch.path(), "saves/" + checkpoint_name(10), [&] {
    removed += remove_old_checkpoints(*files, folder, 20, {.keep = 1}).size();
  });
  CHECK(removed > 0);
  CHECK(list_checkpoints(*files, folder) == Steps{20});
}

TEST_CASE("the checkpoints of the lowest validation losses stay beside the newest") {
  MemoryFiles files(kFolder);
  for (const auto& [step, loss] :
       {std::pair(10, 2.5), {20, 2.0}, {30, 2.0}, {40, 2.2}, {50, 3.0}}) {
    add_validated(files, step, loss);
  }
  // Of equal losses the earlier one is the better, as for run.patience.
  CHECK(remove_old_checkpoints(files, kFolder, 50, {.keep = 1, .keep_best = 3}) == Steps{10});
  CHECK(remove_old_checkpoints(files, kFolder, 50, {.keep = 1, .keep_best = 1}) == Steps{40, 30});
  CHECK(list_checkpoints(files, kFolder) == Steps{20, 50});
  add_validated(files, 60, 1.5);  // the best one is the newest, and takes no place of another
  CHECK(remove_old_checkpoints(files, kFolder, 60, {.keep = 1, .keep_best = 1}) == Steps{50, 20});
  CHECK(list_checkpoints(files, kFolder) == Steps{60});
}

TEST_CASE("a checkpoint without a finite validation loss of its own is none of the best") {
  MemoryFiles files(kFolder);
  add_validated(files, 10, 4);
  add_validated(files, 20, std::numeric_limits<double>::quiet_NaN());
  add(files, 30);
  for (const std::int64_t step : {40, 50}) add_validated(files, step, 3);
  files.remove(manifest_of(40));  // damaged
  Manifest later;                 // behind the validation of another step
  later.step = 60;
  later.validations.add(55, 1);
  files.make_folder(kFolder / checkpoint_name(60));
  write_whole(files, manifest_of(60), bytes_of(later.to_string()));
  add(files, 70);
  CHECK(remove_old_checkpoints(files, kFolder, 70, {.keep = 1, .keep_best = 2}) ==
        Steps{60, 40, 30, 20});
  CHECK(list_checkpoints(files, kFolder) == Steps{10, 50, 70});
}

TEST_CASE("nothing is removed while it cannot be read how good a checkpoint is") {
  MemoryFiles files(kFolder);
  for (const std::int64_t step : {10, 20, 30}) add_validated(files, step, 1);
  files.hide(manifest_of(10), EIO);
  const Retention retention{.keep = 1, .keep_best = 1};
  CHECK_THAT(io_error_of([&] { (void)remove_old_checkpoints(files, kFolder, 30, retention); }),
             ContainsSubstring(manifest_of(10).string()));
  CHECK(list_checkpoints(files, kFolder) == Steps{10, 20, 30});
}

TEST_CASE("a milestone stays whatever its validation loss, and may be the best") {
  MemoryFiles files(kFolder);
  for (const auto& [step, loss] : {std::pair(10, 2.0), {20, 1.0}, {30, 3.0}, {40, 4.0}}) {
    add_validated(files, step, loss);
  }
  const Retention retention{.keep = 1, .keep_best = 1, .milestone_steps = 20};
  CHECK(remove_old_checkpoints(files, kFolder, 40, retention) == Steps{10});
  CHECK(list_checkpoints(files, kFolder) == Steps{20, 30, 40});
}

TEST_CASE("a damaged checkpoint keeps no place of one that is whole") {
  MemoryFiles files(kFolder);
  for (const std::int64_t step : {10, 20, 30}) add(files, step);
  files.remove(manifest_of(30));
  CHECK(remove_old_checkpoints(files, kFolder, 30, {.keep = 2}).empty());
  CHECK(remove_old_checkpoints(files, kFolder, 30, {.keep = 1}) == Steps{10});
  CHECK(list_checkpoints(files, kFolder) == Steps{20, 30});
}

}  // namespace strata
