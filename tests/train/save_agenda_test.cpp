// Tests when checkpoints are due, against lists made by hand.

#include "strata/train/save_agenda.h"

#include <array>
#include <vector>

#include "support/catch.h"
#include "support/thread_ranks.h"

namespace strata {
namespace {

CheckpointSection section(std::optional<std::int64_t> steps, std::optional<double> minutes,
                          bool at_end = false) {
  CheckpointSection config;
  config.every_steps = steps;
  config.every_minutes = minutes;
  config.at_end = at_end;
  return config;
}

/// The steps behind which saves begin, if nothing keeps them from it; a step takes 20 s.
std::vector<std::int64_t> saves(const CheckpointSection& config, std::int64_t steps,
                                std::int64_t first = 0) {
  constexpr double kStepS = 20;
  SaveAgenda agenda(config, steps, first, 1000);
  std::vector<std::int64_t> found;
  for (std::int64_t done = first + 1; done <= steps; ++done) {
    const double now_s = 1000 + kStepS * static_cast<double>(done - first);
    const SaveKinds due = agenda.due(done, now_s);
    CHECK(!due.weights);
    if (!due.whole) continue;
    agenda.begun(due, done, now_s);
    CHECK(agenda.saved() == done);
    found.push_back(done);
  }
  CHECK(agenda.steps_waited() == 0);
  return found;
}

using Steps = std::vector<std::int64_t>;

constexpr SaveKinds kWhole{.whole = true};
constexpr SaveKinds kWeights{.weights = true};
constexpr SaveKinds kBoth{.whole = true, .weights = true};

}  // namespace

TEST_CASE("checkpoints are due every so many steps of the whole run, and at its end") {
  CHECK(saves(section(3, {}), 8) == Steps{3, 6});
  CHECK(saves(section(3, {}, true), 8) == Steps{3, 6, 8});
  CHECK(saves(section(4, {}, true), 8) == Steps{4, 8});
  CHECK(saves(section(1, {}), 3) == Steps{1, 2, 3});
  CHECK(saves(section(3, {}), 8, 4) == Steps{6});  // goes on behind step 4
  CHECK(saves(section({}, {}, true), 8, 7) == Steps{8});
  CHECK(saves(section({}, {}), 8) == Steps{});
}

TEST_CASE("a milestone is due by itself, whatever else is") {
  CheckpointSection config = section(4, {});
  config.milestone_steps = 6;
  CHECK(saves(config, 20) == Steps{4, 6, 8, 12, 16, 18, 20});
  CHECK(saves(config, 20, 13) == Steps{16, 18, 20});
  config.every_steps.reset();
  CHECK(config.enabled());
  CHECK(saves(config, 20) == Steps{6, 12, 18});
}

TEST_CASE("checkpoints are due so many minutes after the last one began") {
  CHECK(saves(section({}, 1.0), 8) == Steps{3, 6});
  CHECK(saves(section({}, 0.5), 8) == Steps{2, 4, 6, 8});
  CHECK(saves(section(4, 1.0), 10) == Steps{3, 4, 7, 8});
  CHECK(saves(section({}, 1.0), 20, 10) == Steps{13, 16, 19});
}

TEST_CASE("a run that ends has the save under way ahead of it, and the last one") {
  const SaveAgenda both(section(4, {}, true), 100, 0, 1000);
  CHECK(both.ahead(3, 1000, 0) == 1);  // the last state
  CHECK(both.ahead(4, 1000, 0) == 2);  // one begins with the next step
  CHECK(both.ahead(5, 1000, 1) == 2);  // it is under way
  CHECK(both.ahead(8, 1000, 1) == 2);  // the next one waits, and is the last one then
  const SaveAgenda periodic(section(4, {}), 100, 0, 1000);
  CHECK(periodic.ahead(3, 1000, 0) == 0);
  CHECK(periodic.ahead(4, 1000, 0) == 1);
  CHECK(periodic.ahead(5, 1000, 1) == 1);
  CHECK(periodic.ahead(8, 1000, 1) == 2);  // what waits is written at the end
  const SaveAgenda timed(section({}, 1.0, true), 100, 0, 1000);
  CHECK(timed.ahead(3, 1059, 0) == 1);
  CHECK(timed.ahead(3, 1060, 0) == 2);
  SaveAgenda asked(section({}, {}, true), 100, 0, 1000);
  CHECK(asked.ahead(3, 1000, 0) == 1);
  asked.ask();
  CHECK(asked.ahead(3, 1000, 0) == 2);
  CHECK(asked.due(3, 1000).whole);  // asking for what is ahead changed nothing
  CHECK(asked.steps_waited() == 0);
}

TEST_CASE("a checkpoint that somebody asks for is due once, and waited for by nobody") {
  SaveAgenda agenda(section({}, {}), 10, 0, 0);
  CHECK(!agenda.due(1, 0).whole);
  agenda.ask();
  CHECK(agenda.due(2, 0).whole);
  agenda.begun(kWhole, 2, 0);
  CHECK(agenda.steps_waited() == 0);
  CHECK(!agenda.due(3, 0).whole);
  agenda.ask();
  agenda.ask();
  CHECK(agenda.due(4, 0).whole);
  agenda.begun(kWhole, 4, 0);
  CHECK(!agenda.due(5, 0).whole);
}

TEST_CASE("a save that is due stays due until it begins, and the steps it waits are counted") {
  SaveAgenda agenda(section(4, {}), 20, 0, 0);
  for (std::int64_t done = 1; done <= 3; ++done) CHECK(!agenda.due(done, 0).whole);
  for (std::int64_t done = 4; done <= 6; ++done)
    CHECK(agenda.due(done, 0).whole);  // one is under way
  CHECK(agenda.saved() == 0);
  CHECK(agenda.due(7, 0).whole);
  agenda.begun(kWhole, 7, 0);
  CHECK(agenda.saved() == 7);
  CHECK(agenda.steps_waited() == 3);
  CHECK(agenda.due(8, 0).whole);
  agenda.begun(kWhole, 8, 0);
  CHECK(!agenda.due(9, 0).whole);
  CHECK(agenda.steps_waited() == 3);
}

TEST_CASE("what a failed save was to save is not saved") {
  SaveAgenda agenda(section(4, 1.0), 20, 3, 0);
  CHECK(agenda.saved() == 3);  // what the run goes on from
  CHECK(agenda.due(4, 10).whole);
  agenda.begun(kWhole, 4, 10);
  agenda.failed(4);
  CHECK(agenda.saved() == 3);
  CHECK(!agenda.due(5, 69).whole);
  CHECK(agenda.due(6, 70).whole);  // a minute after it began
}

TEST_CASE("a checkpoint whose failure is told when the next one has begun costs nothing else") {
  SaveAgenda agenda(section(1, {}), 20, {}, 0);
  CHECK(!agenda.saved());  // the run's own folder has none yet
  for (const std::int64_t done : {1, 2, 3}) {
    CHECK(agenda.due(done, 0).whole);
    agenda.begun(kWhole, done, 0);
  }
  agenda.failed(2);
  CHECK(agenda.saved() == 3);
  agenda.failed(3);
  CHECK(agenda.saved() == 1);
}

TEST_CASE("weights alone are due by their own steps, also with a checkpoint") {
  CheckpointSection config = section(4, {});
  config.weights_every_steps = 3;
  SaveAgenda agenda(config, 12, 0, 0);
  for (std::int64_t done = 1; done <= 12; ++done) {
    const SaveKinds due = agenda.due(done, 0);
    CHECK(due == SaveKinds{.whole = done % 4 == 0, .weights = done % 3 == 0});
    agenda.begun(due, done, 0);
    CHECK(agenda.left() == SaveKinds{});
    CHECK(agenda.saved() == done / 4 * 4);
  }
  CHECK(CheckpointSection::none().enabled() == false);
  config = CheckpointSection::none();
  config.weights_every_steps = 3;
  CHECK(config.enabled());
}

TEST_CASE("weights that are due while something is saved wait by themselves") {
  CheckpointSection config = section(4, {});
  config.weights_every_steps = 5;
  SaveAgenda agenda(config, 20, 0, 0);
  for (std::int64_t done = 1; done <= 3; ++done) CHECK(!agenda.due(done, 0).any());
  CHECK(agenda.due(4, 0) == kWhole);
  CHECK(agenda.due(5, 0) == kBoth);  // nothing could begin
  agenda.begun(kWhole, 5, 0);
  CHECK(agenda.left() == kWeights);
  CHECK(agenda.due(6, 0) == kWeights);
  agenda.begun(kWeights, 6, 0);
  CHECK(agenda.saved() == 5);
  CHECK(agenda.steps_waited() == 2);
  CHECK(!agenda.due(7, 0).any());
}

TEST_CASE("what one rank wants to save all of them save") {
  std::array<SaveKinds, 3> wanted;
  run_ranks(3, [&](Ranks& ranks) {
    const int rank = ranks.rank();
    wanted[static_cast<std::size_t>(rank)] =
        wanted_by_any({.whole = rank == 2, .weights = false}, ranks);
  });
  for (const SaveKinds& kinds : wanted) CHECK(kinds == SaveKinds{.whole = true});
}

}  // namespace strata
