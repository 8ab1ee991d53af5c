// Tests what is told of a lane that a driver runs, by the counters that its device writes.

#include "device/queue_progress.h"

#include <cstdint>
#include <string>

#include "strata/device/lane_state.h"
#include "support/catch.h"

namespace strata {
namespace {

using Doing = LaneState::Doing;

/// Submits as a stream does that tells the host of each of its submissions.
void submit_announced(QueueProgress& progress, std::uint64_t ticket, const SubmissionLabel& label) {
  progress.announce(label);
  static_cast<void>(progress.begin(ticket));
  progress.told(ticket);
}

SubmissionLabel gather(int unit) {
  return {.name = "all_gather", .kind = SubmissionKind::kCollective, .tag = {.unit = unit}};
}

}  // namespace

TEST_CASE("a lane of a driver runs a collective from when it has begun until it has passed") {
  QueueProgress progress;
  submit_announced(progress, 1, {.name = "set"});
  submit_announced(progress, 2, gather(3));
  submit_announced(progress, 3, gather(4));
  CHECK(text_of(Lane::kComm, progress.state(0, 0)) ==
        "the comm lane has not finished what was submitted up to \"all_gather\" (unit=4)");
  CHECK(progress.state(1, 0).doing == Doing::kQueued);
  CHECK(text_of(Lane::kComm, progress.state(1, 2)) == "the comm lane runs \"all_gather\" (unit=3)");
  CHECK(progress.state(2, 2).doing == Doing::kQueued);
  CHECK(text_of(Lane::kComm, progress.state(2, 3)) == "the comm lane runs \"all_gather\" (unit=4)");
  CHECK(progress.state(3, 3).doing == Doing::kNothing);
}

TEST_CASE("a lane of a driver moves as far as its device has come, not as was submitted") {
  QueueProgress progress;
  for (std::uint64_t ticket = 1; ticket <= 9; ++ticket) {
    submit_announced(progress, ticket, {.name = "add"});
  }
  const LaneState before = progress.state(4, 0);
  submit_announced(progress, 10, {.name = "add"});
  CHECK(progress.state(4, 0).same_as(before));
  CHECK(!progress.state(5, 0).same_as(before));
}

TEST_CASE("tickets are told apart where their low halves begin again") {
  constexpr std::uint64_t kTurn = std::uint64_t{1} << 32;
  QueueProgress progress;
  submit_announced(progress, kTurn - 1, gather(1));
  submit_announced(progress, kTurn + 1, gather(2));
  const LaneState first = progress.state(0xFFFFFFFE, 0xFFFFFFFF);
  CHECK(first.doing == Doing::kRuns);
  CHECK(first.ticket == kTurn - 1);
  CHECK(progress.state(0, 1).ticket == kTurn + 1);
  CHECK(progress.state(0, 1).work.tag.unit == 2);
  CHECK(progress.state(1, 1).doing == Doing::kNothing);
}

TEST_CASE("the end of each collective is told, and of other work enough to see it move") {
  QueueProgress progress;
  const auto due = [&](std::uint64_t ticket, const SubmissionLabel& label) {
    progress.announce(label);
    static_cast<void>(progress.begin(ticket));
    return progress.due(ticket);
  };
  CHECK(!due(1, {.name = "add"}));
  CHECK(due(2, gather(1)));
  CHECK(!due(3, {.name = "add"}));
  std::uint64_t ticket = 4;
  while (!due(ticket, {.name = "add"}) && ticket < 10'000) ++ticket;
  CHECK(ticket > 100);
  CHECK(ticket < 1'000);
}

TEST_CASE("of a collective whose label is no longer kept the newest one is told") {
  QueueProgress progress;
  for (int i = 1; i <= 1000; ++i) {
    submit_announced(progress, static_cast<std::uint64_t>(i), gather(i));
  }
  CHECK(progress.state(0, 1).doing == Doing::kRuns);
  CHECK(progress.state(0, 1).work.tag.unit == 1000);
  CHECK(progress.state(998, 999).work.tag.unit == 999);
}

}  // namespace strata
