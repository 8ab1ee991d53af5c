// Tests that a checkpoint holds the plans of matrix products of its run, so that the run has the
// same bits when it goes on in another folder.

#include <span>
#include <string>

#include "checkpoint/memory_files.h"
#include "strata/base/bytes.h"
#include "strata/checkpoint/load_state.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/checkpointer.h"
#include "support/catch.h"
#include "train/save_ways.h"
#include "train/saved_run.h"
#include "train/small_files.h"

namespace strata::test {

namespace {

const std::filesystem::path kOtherFolder = kRunFolder / "other";

/// Writes a file, in the place of one that is there.
void overwrite(Files& files, const std::filesystem::path& file, const std::string& text) {
  if (files.kind(file) != Files::Kind::kNothing) files.remove(file);
  write_whole(files, file, std::as_bytes(std::span(text)));
}

/// Saves a run after step 1, with plans in its folder if `plans` has text. Returns where a run in
/// another folder, which is made, goes on from that.
CheckpointPlace go_on_elsewhere(Files& files, const std::string& plans) {
  if (!plans.empty()) overwrite(files, kRunFolder / kPlansName, plans);
  static_cast<void>(train_and_save(save_config({}), 1, files, {.after = {1}, .steps = 1}));
  files.make_folder(kOtherFolder);
  const std::filesystem::path folder = kCheckpoints / checkpoint_name(1);
  return {.files = &files,
          .folder = kOtherFolder / kCheckpointsName,
          .resume = FoundCheckpoint{folder, read_manifest(files, folder)}};
}

std::string plans_elsewhere(const Files& files) {
  return read_whole(files, kOtherFolder / kPlansName, kMiB);
}

}  // namespace

TEST_CASE("a run that goes on in another folder has the plans of matrix products that it had") {
  MemoryFiles files(kRunFolder);
  const CheckpointPlace place = go_on_elsewhere(files, "the plans");
  overwrite(files, (kOtherFolder / kPlansName).string() + ".tmp", "cut sh");  // left by a crash
  const auto self = make_self_ranks();
  restore_plans(place, *self);
  CHECK(plans_elsewhere(files) == "the plans");
  overwrite(files, kOtherFolder / kPlansName, "its own");
  restore_plans(place, *self);
  CHECK(plans_elsewhere(files) == "its own");
}

TEST_CASE("a checkpoint of a run without plans restores none") {
  MemoryFiles files(kRunFolder);
  const CheckpointPlace place = go_on_elsewhere(files, "");
  const auto self = make_self_ranks();
  restore_plans(place, *self);
  CHECK(files.kind(kOtherFolder / kPlansName) == Files::Kind::kNothing);
}

TEST_CASE("plans that are not what was saved are not restored") {
  MemoryFiles files(kRunFolder);
  const CheckpointPlace place = go_on_elsewhere(files, "the plans");
  overwrite(files, place.resume->folder / kPlansName, "the plane");
  const auto self = make_self_ranks();
  REQUIRE_THROWS_AS(restore_plans(place, *self), DamagedCheckpoint);
  CHECK(files.kind(kOtherFolder / kPlansName) == Files::Kind::kNothing);
}

}  // namespace strata::test
