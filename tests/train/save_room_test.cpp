// Tests how many saves a run has on the disk at once, against counts made by hand and against the
// saves of whole runs, one after the other.

#include "strata/train/save_room.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/train/save_agenda.h"
#include "support/catch.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

CheckpointSection section_keeping(std::optional<std::int64_t> every, std::int64_t keep) {
  CheckpointSection config;
  config.every_steps = every;
  config.keep = keep;
  return config;
}

std::int64_t whole(const CheckpointSection& config, std::int64_t steps,
                   const SavesThere& there = {}) {
  return most_more_saves(config, steps, there).whole;
}

/// Lets a run save and remove, and returns by how many checkpoints there were more than before.
std::int64_t seen(const CheckpointSection& config, std::int64_t steps, const SavesThere& there) {
  std::vector<std::int64_t> held = there.whole;
  std::size_t most = held.size();
  SaveAgenda agenda(config, steps, there.first_step, 0);
  for (std::int64_t done = there.first_step + 1; done <= steps; ++done) {
    if (!agenda.due(done, 0).whole) continue;
    agenda.begun({.whole = true}, done, 0);
    held.push_back(done);
    most = std::max(most, held.size());
    const std::vector<std::int64_t> stay = milestones_of(held, config.milestone_steps);
    std::int64_t passing = std::ssize(held) - std::ssize(stay);
    std::erase_if(held, [&](std::int64_t step) {
      return !std::ranges::binary_search(stay, step) && passing-- > config.keep;
    });
  }
  return static_cast<std::int64_t>(most - there.whole.size());
}

}  // namespace

TEST_CASE("those that are kept and the one that is written are on the disk at once") {
  CHECK(whole(section_keeping(10, 2), 1000) == 3);
  CHECK(whole(section_keeping({}, 2), 1000) == 1);   // the last one alone
  CHECK(whole(section_keeping(500, 9), 1000) == 2);  // one at the end that is due anyway is one
  CHECK(whole(section_keeping(400, 9), 1000) == 3);
  CHECK(whole(section_keeping(10, kMost), 1000) == 100);
  CheckpointSection no_end = section_keeping(10, 2);
  no_end.at_end = false;
  CHECK(whole(no_end, 9) == 0);
  CHECK(whole(no_end, 10) == 1);
  CheckpointSection timed = section_keeping({}, 2);
  timed.every_minutes = 5;
  CHECK(whole(timed, 1000) == 3);
  CHECK(whole(timed, 2) == 2);
}

TEST_CASE("what is there already is counted, and makes way as it does in the run") {
  CHECK(whole(section_keeping(10, 2), 1000, {.first_step = 10, .whole = {10}}) == 2);
  CHECK(whole(section_keeping(10, 2), 1000, {.first_step = 20, .whole = {10, 20}}) == 1);
  CHECK(whole(section_keeping(10, 2), 1000, {.first_step = 50, .whole = {10, 20, 30, 40, 50}}) ==
        1);
  CHECK(whole(section_keeping(10, 2), 1000, {.first_step = 1000, .whole = {990, 1000}}) == 0);
}

TEST_CASE("milestones stay, and those of before are not among the kept") {
  CheckpointSection config = section_keeping(10, 2);
  config.milestone_steps = 50;
  CHECK(whole(config, 1000) == 20 + 3);
  CHECK(whole(config, 1000, {.first_step = 920, .whole = {900, 910, 920}}) == 2 + 1);
  config.milestone_steps = 10;
  CHECK(whole(config, 1000) == 100);
  config.milestone_steps = kMost - 1;
  CHECK(whole(config, 1000) == 3);
  config.keep_best = 3;
  CHECK(whole(config, 1000) == 6);
  config.keep_best = kMost;
  CHECK(whole(config, 1000) == 100);
}

TEST_CASE("a run never has more saves at once than were counted, and none too many") {
  for (const std::int64_t keep : {1, 2, 5}) {
    for (const std::optional<std::int64_t> milestones :
         {std::optional<std::int64_t>(), std::optional<std::int64_t>(6),
          std::optional<std::int64_t>(7)}) {
      for (const SavesThere& there : {SavesThere(), SavesThere{.first_step = 9, .whole = {6, 7, 9}},
                                      SavesThere{.first_step = 8, .whole = {8}}}) {
        for (std::int64_t steps = there.first_step; steps < 40; ++steps) {
          CheckpointSection config = section_keeping(4, keep);
          config.milestone_steps = milestones;
          const std::int64_t found = seen(config, steps, there);
          const std::int64_t counted = whole(config, steps, there);
          INFO(keep << " kept, " << milestones.value_or(0) << ", " << there.first_step << " to "
                    << steps);
          CHECK(found <= counted);
          CHECK(counted <=
                found + (milestones ? 1 : 0));  // the last milestone may be the last save
        }
      }
    }
  }
}

TEST_CASE("weights alone are counted beside checkpoints") {
  CheckpointSection config = section_keeping({}, 2);
  config.weights_every_steps = 100;
  CHECK(most_more_saves(config, 1000, {}) == SaveCounts{.whole = 1, .weights = 10});
  config.weights_keep = 3;
  CHECK(most_more_saves(config, 1000, {}) == SaveCounts{.whole = 1, .weights = 4});
  CHECK(most_more_saves(config, 1000, {.first_step = 300, .weights = {100, 200, 300}}) ==
        SaveCounts{.whole = 1, .weights = 1});
}

TEST_CASE("bytes of saves saturate") {
  CHECK(bytes_of({.whole = 3, .weights = 2}, {.whole = 10, .weights = 4}) == 38);
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  CHECK(bytes_of({.whole = kMost}, {.whole = 3}) == kAll);
  CHECK(bytes_of({.whole = 1, .weights = 1}, {.whole = kAll, .weights = 1}) == kAll);
  CHECK(whole(section_keeping(1, kMost), kMost) == kMost);
}

TEST_CASE("a disk that will not hold all that is kept is warned of, with bytes") {
  RunConfig config = save_config({});
  config.run.steps = 100;
  config.checkpoint.every_steps = 10;
  config.checkpoint.keep = 4;
  MemoryFiles files(kRunFolder);
  const CheckpointPlace place{.files = &files, .folder = kCheckpoints, .resume = {}};
  const auto self = make_self_ranks();
  SessionHooks hooks;
  hooks.checkpoints = place;
  const Session session(config, *self, hooks);
  const std::uint64_t each = save_sizes(session.setup()).whole;
  const auto warning = [&](std::uint64_t room) {
    files.set_capacity(room);
    return require_disk(place, session.config(), session.setup(), *self).warning;
  };
  CHECK(warning(5 * each) == "");
  CHECK_THAT(warning(5 * each - 1), ContainsSubstring("/run has room for ") &&
                                        ContainsSubstring("5 more checkpoints of ") &&
                                        ContainsSubstring("checkpoint.keep"));
  CHECK_THROWS_AS(warning(each - 1), IoError);  // not even one
}

}  // namespace strata::test
