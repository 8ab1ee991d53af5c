// Tests to which checkpoint a run goes back from a bad step, and which data it trains on then.

#include "strata/train/rollback.h"

#include <cerrno>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

/// A checkpoint that has consumed ten samples a step.
void add(Files& files, std::int64_t step, std::int64_t bad_in_a_row = 0, bool finite = true) {
  Manifest manifest;
  manifest.step = step;
  manifest.samples = 10 * step;
  manifest.history.bad_in_a_row = bad_in_a_row;
  manifest.finite = finite;
  add_checkpoint(files, kRunFolder, manifest);
}

BadStep bad_step(std::int64_t step) {
  return {.step = step, .what = "the loss is nan", .samples = 10 * (step + 1)};
}

CheckpointPlace place_of(Files& files) {
  return {.files = &files, .folder = kCheckpoints, .resume = {}};
}

}  // namespace

TEST_CASE("a run goes back to the newest good checkpoint before the bad step") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20}) add(files, step);
  add(files, 25, 1);         // behind a bad step
  add(files, 26, 0, false);  // not finite
  add(files, 31);            // behind the bad step below
  const int ranks = GENERATE(1, 2);
  std::vector<CheckpointPlace> places(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Ranks& group) {
    Rollbacks rollbacks(3);
    rollbacks.require_possible(bad_step(30));
    places[static_cast<std::size_t>(group.rank())] =
        rollbacks.go_back(place_of(files), bad_step(30), group);
  });
  for (const CheckpointPlace& to : places) {
    CHECK(to.first_step() == 20);
    CHECK(to.skipped == std::vector<SampleWindow>{{200, 310}});
    CHECK(to.first_sample() == 310);
    CHECK(to.trained_samples() == 200);
  }
  CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{10, 20});
}

TEST_CASE("what a run goes back past is set aside, and goes when it has gone on") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20, 31}) add(files, step);
  add(files, 25);
  files.remove(kCheckpoints / checkpoint_name(25) / "weights");  // damaged
  const auto self = make_self_ranks();
  const CheckpointPlace to = Rollbacks(3).go_back(place_of(files), bad_step(30), *self);
  CHECK(to.first_step() == 20);
  CHECK(to.given_up.size() == 2);
  CHECK(files.list(kCheckpoints) == std::vector<std::string>{"step-00000010", "step-00000020",
                                                             "step-00000025.abandoned",
                                                             "step-00000031.abandoned"});
  const std::vector<std::string> kept = remove_set_aside(files, to.given_up);
  REQUIRE(kept.size() == 1);
  CHECK_THAT(kept[0], ContainsSubstring("step-00000025.abandoned/weights: is missing"));
  CHECK(files.list(kCheckpoints) ==
        std::vector<std::string>{"step-00000010", "step-00000020", "step-00000025.abandoned"});
  CHECK(remove_set_aside(files, {to.given_up.front()}).empty());  // it has gone before
}

TEST_CASE("a run does not go back past a checkpoint that cannot be read, and removes none") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20}) add(files, step);
  const std::size_t before = files.operations();
  files.hide(kCheckpoints / checkpoint_name(20), EIO);
  const auto self = make_self_ranks();
  CHECK_THROWS_WITH(
      Rollbacks(3).go_back(place_of(files), bad_step(30), *self),
      ContainsSubstring(checkpoint_name(20)) && ContainsSubstring("Input/output error"));
  CHECK(files.operations() == before);
}

TEST_CASE("a run whose checkpoints are damaged does not go back to its beginning") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20}) {
    add(files, step);
    files.remove(kCheckpoints / checkpoint_name(step) / kManifestName);
  }
  const auto self = make_self_ranks();
  CHECK_THROWS_WITH(Rollbacks(3).go_back(place_of(files), bad_step(30), *self),
                    ContainsSubstring("no good checkpoint before the bad step is whole"));
  CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{10, 20});
}

TEST_CASE("a checkpoint that proves damaged as a run goes back to it is set aside for good") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20}) add(files, step);
  const auto self = make_self_ranks();
  Rollbacks rollbacks(3);
  CheckpointPlace place = rollbacks.go_back(place_of(files), bad_step(30), *self);
  REQUIRE(place.first_step() == 20);
  set_aside_damaged(place);
  place = rollbacks.go_back(place, bad_step(30), *self);
  CHECK(place.first_step() == 10);
  CHECK(remove_set_aside(files, place.given_up).empty());
  CHECK(files.list(kCheckpoints) ==
        std::vector<std::string>{"step-00000010", "step-00000020.abandoned"});
  place.resume->folder = "/elsewhere/step-00000010";  // of another run
  set_aside_damaged(place);
  CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{10});
}

TEST_CASE("a run whose only checkpoint proves damaged does not go back to it under another name") {
  MemoryFiles files(kRunFolder);
  add(files, 20);
  CheckpointPlace place = place_of(files);
  std::vector<std::string> skipped;
  place.resume = newest_checkpoint(files, kCheckpoints, skipped);  // the run began with it
  const auto self = make_self_ranks();
  Rollbacks rollbacks(3);
  place = rollbacks.go_back(place, bad_step(30), *self);
  REQUIRE(place.first_step() == 20);
  set_aside_damaged(place);
  CHECK_THROWS_WITH(rollbacks.go_back(place, bad_step(30), *self),
                    ContainsSubstring("no good checkpoint before the bad step is whole"));
}

TEST_CASE("the newest good checkpoint stays while newer ones are behind bad steps") {
  MemoryFiles files(kRunFolder);
  add(files, 10);
  add(files, 20);
  for (const std::int64_t step : {30, 40}) add(files, step, step / 10);
  CHECK(remove_old_checkpoints(files, kCheckpoints, 40, {.keep = 1}) ==
        std::vector<std::int64_t>{30, 10});
  CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{20, 40});
}

TEST_CASE("a state behind the bad step itself is not gone back to, the one before it is") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {29, 30, 31}) add(files, step);
  const auto self = make_self_ranks();
  CHECK(Rollbacks(3).go_back(place_of(files), bad_step(30), *self).first_step() == 30);
}

TEST_CASE("a run that does not get past a bad step goes one further back, and ends at last") {
  MemoryFiles files(kRunFolder);
  for (const std::int64_t step : {10, 20, 30}) add(files, step);
  const auto self = make_self_ranks();
  Rollbacks rollbacks(4);
  CheckpointPlace place = rollbacks.go_back(place_of(files), bad_step(35), *self);
  CHECK(place.first_step() == 30);
  place = rollbacks.go_back(place, {.step = 33, .what = "", .samples = 400}, *self);
  CHECK(place.first_step() == 20);
  CHECK(place.skipped == std::vector<SampleWindow>{{200, 400}});
  place = rollbacks.go_back(place, {.step = 35, .what = "", .samples = 600}, *self);
  CHECK(place.first_step() == 10);
  CHECK_THROWS_AS(rollbacks.require_possible(bad_step(34)), NumericalError);
  CHECK_THROWS_WITH(rollbacks.require_possible(bad_step(34)),
                    ContainsSubstring("step 35: the loss is nan") && ContainsSubstring("4 times") &&
                        ContainsSubstring("past step 36"));
  // Behind the furthest bad step counting begins anew.
  CHECK_NOTHROW(rollbacks.require_possible(bad_step(36)));
}

TEST_CASE("without a good checkpoint a run goes back to where it began") {
  MemoryFiles files(kRunFolder);
  const auto self = make_self_ranks();
  Rollbacks rollbacks(3);
  CheckpointPlace place = rollbacks.go_back(place_of(files), bad_step(3), *self);
  CHECK(!place.resume);
  CHECK(place.skipped == std::vector<SampleWindow>{{0, 40}});
  CHECK(place.trained_samples() == 0);

  CheckpointPlace from_other = place_of(files);
  from_other.resume = FoundCheckpoint{.folder = "/elsewhere/step-7", .manifest = {}};
  from_other.resume->manifest.step = 7;
  from_other.resume->manifest.samples = 70;
  from_other.resume->manifest.skipped = {{10, 20}, {60, 70}};
  place = Rollbacks(3).go_back(from_other, bad_step(8), *self);
  CHECK(place.resume->folder == "/elsewhere/step-7");
  CHECK(place.skipped == std::vector<SampleWindow>{{10, 20}, {60, 90}});
  CHECK(place.trained_samples() == 50);
}

// The weights stay as they are, so a step's loss says which data it saw.
TEST_CASE("after going back, data go on behind what is left out") {
  RunConfig config = save_config({});
  config.optimizer.lr = 0;
  MemoryFiles files(kRunFolder);
  const SavedRun whole = train_and_save(config, 1, files, {.after = {1}, .steps = 5});
  REQUIRE(whole.reports.size() == 1);
  const std::int64_t each = read_manifest(files, kCheckpoints / checkpoint_name(1)).samples;
  SessionHooks hooks;
  hooks.checkpoints = place_of(files);
  const auto self = make_self_ranks();
  hooks.checkpoints =
      Rollbacks(3).go_back(*hooks.checkpoints, {.step = 2, .what = "", .samples = 3 * each}, *self);
  Session session(config, *self, hooks);
  CHECK(session.first_step() == 1);
  for (const std::int64_t step : {1, 2}) session.submit(step, 0, {.whole = step == 2});
  session.synchronize();
  session.checkpoints()->wait();
  const std::vector<FinishedStep> finished = session.take_finished();
  REQUIRE(finished.size() == 2);
  CHECK(finished[0].outcome.loss == whole.run.losses[3]);
  CHECK(finished[1].outcome.loss == whole.run.losses[4]);
  CHECK(finished[0].outcome.loss != whole.run.losses[1]);
  const Manifest manifest = read_manifest(files, kCheckpoints / checkpoint_name(3));
  CHECK(manifest.samples == 5 * each);
  CHECK(manifest.skipped == std::vector<SampleWindow>{{each, 3 * each}});
}

}  // namespace strata::test
