// Tests when a watchdog ends a job and whom it names: first what it concludes, with times that are
// arguments, and then watchdogs at work on ranks in threads.

#include "strata/launch/watchdog.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl_collectives.h"
#include "launch/rank_watch.h"
#include "strata/base/error.h"
#include "strata/base/process.h"
#include "strata/comm/collectives.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/fake_device.h"
#include "support/fake_nccl.h"
#include "support/log_text.h"
#include "support/patience.h"
#include "support/thread_ranks.h"

namespace strata::test {
namespace {

using Doing = LaneState::Doing;

constexpr double kLimitS = 300;

RankView with(const std::vector<std::pair<Lane, LaneState>>& lanes) {
  RankView view;
  for (const auto& [lane, state] : lanes) view.lanes[static_cast<std::size_t>(lane)] = state;
  return view;
}

LaneState runs(const char* name, SubmissionKind kind = SubmissionKind::kKernel) {
  return {.doing = Doing::kRuns,
          .ticket = 7,
          .work = {.name = name, .kind = kind, .tag = {.phase = "backward", .unit = 2}}};
}

LaneState waits(const char* name, Lane lane) {
  return {.doing = Doing::kWaits, .ticket = 4, .work = {.name = name}, .waits_for = Event{lane, 7}};
}

RankView meets(RankView view, Channel channel) {
  view.meets[static_cast<std::size_t>(channel)] = true;
  return view;
}

/// Returns how a rank is that has looked like this for longer than the limit.
RankReport after_limit(const RankView& view) {
  StallWatch watch(kLimitS);
  static_cast<void>(watch.look(view, 0));
  CHECK(watch.look(view, kLimitS - 1).standing == Standing::kMoves);
  return watch.look(view, 2);
}

/// Returns the verdict on ranks that are like this, if there is one.
std::optional<std::string> judge(const std::vector<Standing>& standings) {
  RankTable table(0, static_cast<int>(standings.size()), kLimitS);
  for (std::size_t r = 0; r < standings.size(); ++r) {
    table.heard(static_cast<int>(r), {.standing = standings[r], .text = ": because"});
  }
  return table.judge(1);
}

}  // namespace

TEST_CASE("a rank is stuck at what runs, not at what waits for that") {
  const RankReport report = after_limit(with({{Lane::kCompute, runs("matmul")},
                                              {Lane::kOut, waits("offload", Lane::kCompute)},
                                              {Lane::kComm, waits("gather", Lane::kOut)}}));
  CHECK(report.standing == Standing::kStuck);
  CHECK(report.text == " for 301.0 s: the compute lane runs \"matmul\" (backward unit=2)");
}

TEST_CASE("a rank that moves in any lane is not stuck, however long another lane takes") {
  StallWatch watch(kLimitS);
  RankView view = with({{Lane::kHost, runs("update")}, {Lane::kCompute, runs("matmul")}});
  for (int i = 0; i < 10; ++i) {
    ++view.lanes[static_cast<std::size_t>(Lane::kCompute)].ticket;
    CHECK(watch.look(view, kLimitS / 2).standing == Standing::kMoves);
  }
  CHECK(watch.look(view, kLimitS - 1).standing == Standing::kMoves);
  CHECK(watch.look(view, 1).standing == Standing::kStuck);
  static_cast<void>(watch.look_away());  // a validation, say
  CHECK(watch.look(view, kLimitS - 1).standing == Standing::kMoves);
}

TEST_CASE("a rank whose long wait has just ended is not stuck, though nothing has moved yet") {
  const RankView host = with({{Lane::kHost, runs("sum_norms")}});
  StallWatch meeting(kLimitS);
  static_cast<void>(meeting.look(meets(host, Channel::kHost), 0));
  CHECK(meeting.look(meets(host, Channel::kHost), kLimitS).standing == Standing::kMeets);
  CHECK(meeting.look(host, 1).standing == Standing::kMoves);
  CHECK(meeting.look(host, kLimitS).standing == Standing::kStuck);

  const LaneState update = waits("update", Lane::kSave);
  const RankView save = with({{Lane::kSave, runs("write")}, {Lane::kHost, update}});
  StallWatch saving(kLimitS);
  static_cast<void>(saving.look(save, 0));
  CHECK(saving.look(save, kLimitS).standing == Standing::kUnwatched);
  CHECK(saving.look(with({{Lane::kHost, update}}), 1).standing == Standing::kMoves);
}

TEST_CASE("a rank waits for others in collectives and meetings, and for a disk in saves") {
  const LaneState collective = runs("all_gather", SubmissionKind::kCollective);
  CHECK(after_limit(with({{Lane::kComm, collective}})).standing == Standing::kMeets);
  const RankView host = with({{Lane::kHost, runs("sum_norms")}});
  CHECK(after_limit(host).standing == Standing::kStuck);
  CHECK(after_limit(meets(host, Channel::kHost)).standing == Standing::kMeets);

  const RankView save =
      with({{Lane::kSave, runs("write")}, {Lane::kHost, waits("update", Lane::kSave)}});
  CHECK(after_limit(save).standing == Standing::kUnwatched);
  CHECK(after_limit(meets(save, Channel::kSave)).standing == Standing::kMeets);
  CHECK(after_limit(with({{Lane::kSave, runs("write")}, {Lane::kCompute, runs("matmul")}}))
            .standing == Standing::kStuck);
}

TEST_CASE("a rank that has not begun a collective is not in it, and one that has is") {
  const LaneState matmul{.doing = Doing::kQueued, .ticket = 9, .work = {.name = "matmul"}};
  LaneState gather = runs("all_gather", SubmissionKind::kCollective);
  CHECK(after_limit(with({{Lane::kCompute, matmul}, {Lane::kComm, gather}})).standing ==
        Standing::kMeets);
  gather.doing = Doing::kQueued;
  CHECK(after_limit(with({{Lane::kCompute, matmul}, {Lane::kComm, gather}})).standing ==
        Standing::kStuck);
  CHECK(after_limit(with({{Lane::kComm, gather}})).standing == Standing::kStuck);
}

TEST_CASE("a rank without work is idle, or meets the others") {
  CHECK(after_limit({}).standing == Standing::kIdle);
  CHECK(after_limit(meets({}, Channel::kSubmit)).standing == Standing::kMeets);
}

TEST_CASE("what a driver has and does not finish is told after what the host knows") {
  const LaneState queued{.doing = Doing::kQueued, .ticket = 9, .work = {.name = "copy"}};
  const RankReport alone = after_limit(with({{Lane::kOut, queued}}));
  CHECK(alone.standing == Standing::kStuck);
  CHECK_THAT(alone.text, ContainsSubstring("out lane has not finished what was submitted up to"));
  // A lane of the driver may wait for an update that waits for a checkpoint.
  CHECK(after_limit(with({{Lane::kOut, queued}, {Lane::kSave, runs("write")}})).standing ==
        Standing::kUnwatched);
}

TEST_CASE("collectives that failed make their rank stuck at once") {
  RankView view;
  view.failure = "the network is gone";
  const RankReport report = StallWatch(kLimitS).look(view, 0);
  CHECK(report.standing == Standing::kStuck);
  CHECK(report.text == ": the network is gone");
}

TEST_CASE("the verdict names who is stuck, or else who has nothing to do, or else all") {
  using enum Standing;
  CHECK(judge({kMeets, kStuck, kMeets}) == "rank 1 does not move: because (run.watchdog_s = 300)");
  CHECK(judge({kMoves, kUnwatched, kStuck}) ==
        "rank 2 does not move: because (run.watchdog_s = 300)");
  CHECK(judge({kMeets, kIdle}) == "rank 1 does not move: because (run.watchdog_s = 300)");
  CHECK(judge({kMeets, kMeets}) ==
        "rank 0 does not move: because; rank 1 does not move: because (run.watchdog_s = 300)");
  CHECK(!judge({kMeets, kMoves}));
  CHECK(!judge({kMeets, kUnwatched}));
  CHECK(!judge({kIdle, kIdle}));
  CHECK(!judge({kIdle}));
}

TEST_CASE("who waited for a rank that has left has the limit to wake up") {
  RankTable table(1, 2, kLimitS);
  table.heard(0, {.standing = Standing::kMeets, .text = ": because"});
  table.heard(1, {.standing = Standing::kUnwatched});
  CHECK(!table.judge(1));
  table.heard(0, {.standing = Standing::kLeft});
  table.heard(1, {.standing = Standing::kMeets, .text = ": because"});
  CHECK(!table.judge(kLimitS - 1));
  CHECK(table.judge(1) == "rank 1 does not move: because (run.watchdog_s = 300)");
}

TEST_CASE("a rank of which nothing is heard for the limit is named, unless it has said good-bye") {
  RankTable table(0, 3, kLimitS);
  CHECK(!table.judge(kLimitS - 1));
  table.heard(1, {});
  CHECK(table.judge(1) == "rank 2 is silent, not heard of for 300.0 s (run.watchdog_s = 300)");
  table.heard(2, {.standing = Standing::kLeft});
  CHECK(!table.judge(kLimitS / 2));
  CHECK(table.judge(kLimitS) ==
        "rank 1 is silent, not heard of for 451.0 s (run.watchdog_s = 300)");
}

TEST_CASE("letters carry reports, and cut what is too long") {
  const RankReport idle = from_letter(to_letter({.standing = Standing::kIdle, .text = "a text"}));
  CHECK(idle.standing == Standing::kIdle);
  CHECK(idle.text == "a text");
  CHECK(idle.verdict.empty());
  const std::string longer(2 * kLetterBytes, 'x');
  const RankReport verdict = from_letter(to_letter({.text = "a text", .verdict = longer}));
  CHECK(verdict.text.empty());
  CHECK(verdict.verdict == longer.substr(0, kLetterBytes - 2));
  RankTable table(0, 2, kLimitS);
  table.heard(1, verdict);
  CHECK(table.judge(0) == verdict.verdict);
}

namespace {

/// The time of watchdogs that beat together. None begins a beat before all have ended the last one,
/// so that each hears of every other in each, as it does where nothing holds threads up. This time
/// passes by beats alone, and stands still until every rank has said that it is where the test
/// wants it.
class BeatTime {
 public:
  /// `dogs` watchdogs beat, on ranks of which `ranks` say when time is to begin. It ends at
  /// `end_s`.
  explicit BeatTime(int dogs, int ranks, double end_s = kForEver)
      : dogs_(dogs), ranks_(ranks), end_s_(end_s) {}

  [[nodiscard]] Watchdog::Time time() {
    return {.clock = [this] { return passed_s(); },
            .pause = [this](double seconds, const std::stop_token& stop) { pause(seconds, stop); }};
  }
  /// Says that the calling rank is where it is to be, and will stay there while time passes.
  void begin() {
    const std::lock_guard lock(mutex_);
    ++ready_;
    beat();
  }
  /// Blocks until so much time has passed.
  void wait_until(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return now_s_ >= seconds; });
  }
  [[nodiscard]] double passed_s() {
    const std::lock_guard lock(mutex_);
    return now_s_;
  }

 private:
  static constexpr double kForEver = 1e9;

  void pause(double seconds, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    beat_s_ = seconds;  // of all the same
    const std::int64_t beats = beats_;
    ++waiting_;
    beat();
    changed_.wait(lock, stop, [&] { return beats_ != beats; });
  }
  /// Lets a beat begin if it may.
  void beat() {
    if (waiting_ < dogs_ || ready_ < ranks_ || now_s_ >= end_s_) return;
    waiting_ = 0;
    ++beats_;
    now_s_ += beat_s_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  const int dogs_;
  const int ranks_;
  const double end_s_;
  int waiting_ = 0;  ///< guarded by mutex_, as what follows
  int ready_ = 0;
  std::int64_t beats_ = 0;
  double beat_s_ = 0;
  double now_s_ = 0;
};

/// The limit of these watchdogs. They beat twice a second, so that the others hear of a verdict in
/// the beat before the job ends.
constexpr double kShortS = 4;

/// Waits for what has to come, on a thread on which Catch2 may not be asked.
void require_that(const std::function<bool()>& condition) {
  if (!comes_true(condition)) throw std::logic_error("a lane or a rank does not get there");
}

/// A rank with a machine and a watchdog.
struct Watched {
  Ranks& ranks;
  Backend backend;
  std::unique_ptr<Collectives> collectives = make_collectives(ranks, *backend.device);

  [[nodiscard]] Watchdog::Scope watch(Watchdog& dog) const {
    return dog.watch(*backend.device, [this] { return collectives->failure(); });
  }
  /// Waits until a lane does this.
  void wait_for(Lane lane, Doing doing) const {
    require_that([&] { return backend.device->lane_state(lane).doing == doing; });
  }
};

Backend make_cpu() { return make_backend(BackendKind::kCpu, {.device = {}, .threads = 1}); }

/// Makes a machine whose device lanes say no more than a driver's counters.
Backend make_like_gpu() {
  return make_fake_backend(std::make_unique<FakeDevice>(DeviceOptions{}), {});
}

/// Runs `work` on two ranks whose watchdogs watch, and returns what was logged and thrown.
std::string watched(BeatTime& time, const std::function<void(Watched&)>& work,
                    const std::function<Backend()>& make = make_cpu) {
  const LogText log;
  std::string thrown = "nothing";
  try {
    run_ranks(2, [&](Ranks& own) {
      Watched rank{own, make()};
      Watchdog dog(own, kShortS, time.time());
      const Watchdog::Scope scope = rank.watch(dog);
      work(rank);
      rank.backend.device->synchronize();
    });
  } catch (const BackendError& error) {
    thrown = error.what();
  }
  return log.text() + "thrown: " + thrown;
}

/// Collectives whose work failed where no lane sees it.
class FailedCollectives final : public Collectives {
 public:
  FailedCollectives() : Collectives(0, 2) {}
  [[nodiscard]] std::string failure() const override { return "the network is gone"; }

 private:
  void enqueue_all_gather(Stream&, const Shards&) override {}
  void enqueue_reduce_scatter(Stream&, const Shards&) override {}
  void enqueue_all_reduce(Stream&, const Shards&) override {}
};

}  // namespace

TEST_CASE("a lane that hangs on one rank ends the job, and every rank names it") {
  std::promise<void> ended;
  const std::shared_future<void> end = ended.get_future().share();
  BeatTime time(2, 2);
  std::array<std::array<float, 64>, 2> memory{};
  const std::string text = watched(time, [&](Watched& rank) {
    Device& device = *rank.backend.device;
    if (rank.ranks.rank() == 1) {
      device.stream(Lane::kCompute).host_task("loop", {}, {.phase = "forward", .unit = 3}, [end] {
        end.wait();
      });
      device.stream(Lane::kComm).wait(device.stream(Lane::kCompute).record(), WaitFor::kGathered);
    }
    rank.collectives->all_gather(
        device.stream(Lane::kComm),
        TensorView(memory[static_cast<std::size_t>(rank.ranks.rank())].data(), DType::kF32, {64}),
        {.unit = 3});
    rank.wait_for(rank.ranks.rank() == 1 ? Lane::kCompute : Lane::kComm, Doing::kRuns);
    time.begin();
    if (rank.ranks.rank() == 1) return;
    device.wait(device.stream(Lane::kComm).record());  // until the ranks are aborted
    ended.set_value();
  });
  INFO(text);
  // The limit, a beat in which the lanes are seen for the first time, and those in which every rank
  // hears of the verdict.
  CHECK(time.passed_s() >= kShortS);
  CHECK(time.passed_s() <= kShortS + 3);
  const std::string guilty = "rank 1 does not move for ";
  const std::string where = "the compute lane runs \"loop\" (forward unit=3)";
  CHECK_THAT(text, ContainsSubstring(guilty) && ContainsSubstring(where) &&
                       ContainsSubstring("the job ends with exit code 5"));
  CHECK_THAT(text, ContainsSubstring("this rank, 0: the comm lane runs \"all_gather\" (unit=3)"));
  CHECK_THAT(text, ContainsSubstring("this rank, 1: the compute lane runs"));
  CHECK_THAT(text, ContainsSubstring("aborted with exit code 5"));
}

TEST_CASE("a rank whose watchdog says nothing is named by the others") {
  const LogText log;
  BeatTime time(1, 2);
  CHECK_THROWS_AS(run_ranks(2,
                            [&](Ranks& ranks) {
                              time.begin();
                              if (ranks.rank() == 1) return;
                              const Watchdog dog(ranks, kShortS, time.time());
                              ranks.barrier(Channel::kSubmit);
                            }),
                  BackendError);
  CHECK_THAT(log.text(), ContainsSubstring("rank 1 is silent") &&
                             ContainsSubstring("this rank, 0: it is not watched now"));
}

TEST_CASE("collectives that failed where no lane sees it end the job") {
  const LogText log;
  BeatTime time(2, 2);
  CHECK_THROWS_AS(run_ranks(2,
                            [&](Ranks& ranks) {
                              Watched rank{ranks, make_cpu()};
                              if (ranks.rank() == 1) {
                                rank.collectives = std::make_unique<FailedCollectives>();
                              }
                              Watchdog dog(ranks, kShortS, time.time());
                              const Watchdog::Scope scope = rank.watch(dog);
                              time.begin();
                              // Each waits for the other.
                              ranks.barrier(ranks.rank() == 0 ? Channel::kSubmit : Channel::kHost);
                            }),
                  BackendError);
  CHECK_THAT(log.text(), ContainsSubstring("rank 1 does not move: the network is gone"));
}

namespace {

/// Runs two ranks whose collectives are NCCL's on a fake library, in which `submit` submits what
/// never ends, and returns what was logged. Time begins when the comm lane `runs`, if it does.
std::string watched_nccl(FakeNccl& nccl, bool runs,
                         const std::function<void(Watched&, const TensorView&)>& submit) {
  BeatTime time(2, 2);
  return watched(time, [&](Watched& rank) {
    rank.collectives = make_nccl_collectives(nccl.api(), rank.ranks, *rank.backend.device);
    std::vector<float> memory(64);
    submit(rank, TensorView(memory.data(), DType::kF32, {64}));
    if (runs) rank.wait_for(Lane::kComm, Doing::kRuns);
    time.begin();
    try {  // each waits for the other, until the watchdog has aborted the ranks
      rank.ranks.barrier(rank.ranks.rank() == 0 ? Channel::kSubmit : Channel::kHost);
    } catch (const BackendError&) {
      nccl.release();
      rank.backend.device->synchronize();
      throw;
    }
  });
}

}  // namespace

TEST_CASE("ranks that call NCCL in different orders are named with what each waits in") {
  FakeNccl nccl;
  const std::string text = watched_nccl(nccl, true, [](Watched& rank, const TensorView& full) {
    Stream& comm = rank.backend.device->stream(Lane::kComm);
    if (rank.ranks.rank() == 0) {
      rank.collectives->all_gather(comm, full, {.phase = "forward", .unit = 3});
    } else {
      rank.collectives->reduce_scatter(comm, full, {.phase = "backward", .unit = 2});
    }
  });
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("the job ends with exit code 5"));
  CHECK_THAT(text, ContainsSubstring("rank 0 does not move for") &&
                       ContainsSubstring("the comm lane runs \"all_gather\" (forward unit=3)"));
  CHECK_THAT(text,
             ContainsSubstring("rank 1 does not move for") &&
                 ContainsSubstring("the comm lane runs \"reduce_scatter\" (backward unit=2)"));
}

TEST_CASE("a collective of NCCL that never ends ends the job") {
  FakeNccl nccl;
  const std::string text = watched_nccl(nccl, true, [&](Watched& rank, const TensorView& full) {
    if (rank.ranks.rank() == 1) nccl.hang_next(1);
    rank.collectives->all_reduce(rank.backend.device->stream(Lane::kComm), full, {.unit = 5});
  });
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("the job ends with exit code 5") &&
                       ContainsSubstring("rank 1 does not move for") &&
                       ContainsSubstring("the comm lane runs \"all_reduce\" (unit=5)"));
}

TEST_CASE("a rank that waits in a collective of its GPU is not named for another rank's kernel") {
  FakeNccl nccl;
  BeatTime time(2, 2);
  std::promise<void> ended;
  const std::shared_future<void> end = ended.get_future().share();
  const auto work = [&](Watched& rank) {
    Device& device = *rank.backend.device;
    Stream& compute = device.stream(Lane::kCompute);
    Stream& comm = device.stream(Lane::kComm);
    rank.collectives = make_nccl_collectives(nccl.api(), rank.ranks, device);
    std::vector<float> memory(64);
    const bool hangs = rank.ranks.rank() == 1;
    if (hangs) {
      compute.host_task("loop", {}, {.phase = "forward", .unit = 3}, [end] { end.wait(); });
      comm.wait(compute.record(), WaitFor::kGathered);
    }
    rank.collectives->all_gather(comm, TensorView(memory.data(), DType::kF32, {64}), {.unit = 4});
    compute.wait(comm.record(), WaitFor::kGathered);
    compute.host_task("matmul", {}, {.phase = "forward", .unit = 4}, [] {});
    rank.wait_for(Lane::kCompute, Doing::kQueued);
    rank.wait_for(Lane::kComm, hangs ? Doing::kQueued : Doing::kRuns);
    time.begin();
    try {  // until the watchdog has aborted the ranks
      rank.ranks.barrier(hangs ? Channel::kHost : Channel::kSubmit);
    } catch (const BackendError&) {
      if (hangs) ended.set_value();
      nccl.release();
      device.synchronize();
      throw;
    }
  };
  const std::string text = watched(time, work, make_like_gpu);
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("exit code 5: rank 1 does not move for ") &&
                       ContainsSubstring("the compute lane has not finished what was submitted up "
                                         "to \"matmul\" (forward unit=4)"));
  CHECK_THAT(text, !ContainsSubstring("rank 0 does not move"));
  CHECK_THAT(text, ContainsSubstring("this rank, 0: ") &&
                       ContainsSubstring("the comm lane runs \"all_gather\" (unit=4)"));
}

TEST_CASE("an asynchronous error of NCCL ends the job, and its rank is named") {
  FakeNccl nccl;
  const std::string text = watched_nccl(nccl, false, [&](Watched& rank, const TensorView&) {
    if (rank.ranks.rank() == 1) nccl.fail_later(1, "link 3 is down");
  });
  CHECK_THAT(text, ContainsSubstring("rank 1 does not move: NCCL: invalid usage (link 3 is down)"));
}

TEST_CASE("a long save, a pause and a rank that waits for a slow one end nothing") {
  constexpr double kLongS = 2.5 * kShortS;
  BeatTime time(2, 2, kLongS);
  const std::string text = watched(time, [&](Watched& rank) {
    Device& device = *rank.backend.device;
    const bool saves = rank.ranks.rank() == 0;
    if (saves) {
      device.stream(Lane::kSave).host_task("write", {}, {}, [&] { time.wait_until(kLongS); });
      device.stream(Lane::kHost).wait(device.stream(Lane::kSave).record(), WaitFor::kSaved);
    }
    device.stream(Lane::kHost).host_task("norm", {}, {}, [&] {
      rank.ranks.barrier(Channel::kHost);
    });
    rank.wait_for(saves ? Lane::kSave : Lane::kHost, Doing::kRuns);
    if (!saves) require_that([&] { return rank.ranks.meets(Channel::kHost); });
    time.begin();
  });
  INFO(text);
  CHECK(time.passed_s() == kLongS);
  CHECK(text == "thrown: nothing");
}

TEST_CASE("what is paused or has gone is not watched, and without a limit nothing is") {
  const LogText log;
  constexpr double kLongS = 2 * kShortS;
  BeatTime time(2, 2, kLongS);
  run_ranks(2, [&](Ranks& ranks) {
    Watched rank{ranks, make_cpu()};
    Watchdog dog(ranks, kShortS, time.time());
    Watchdog none(ranks, 0.0);
    const Watchdog::Scope idle = rank.watch(none);
    {
      const Watchdog::Scope scope = rank.watch(dog);
      const Watchdog::Scope pause = dog.pause();
      rank.backend.device->stream(Lane::kHost).host_task("slow", {}, {}, [&] {
        time.wait_until(kLongS);
      });
      time.begin();
      rank.backend.device->synchronize();
    }
  });
  CHECK(log.text().empty());
}

TEST_CASE("a watchdog beats by the clock of the system, and a stop ends its pause") {
  const double begin_s = steady_seconds();
  std::stop_source stop;
  Watchdog::pause_for(0.02, stop.get_token());  // a pause may take any longer
  CHECK(steady_seconds() - begin_s >= 0.02);
  const std::jthread stopper([&] { stop.request_stop(); });
  Watchdog::pause_for(1e6, stop.get_token());  // returns
}

TEST_CASE("a rank that is stuck for a limit of the system's time ends the job") {
  const LogText log;
  std::promise<void> ended;
  const std::shared_future<void> end = ended.get_future().share();
  CHECK_THROWS_AS(
      run_ranks(1,
                [&](Ranks& ranks) {
                  Watched rank{ranks, make_cpu()};
                  Watchdog dog(ranks, 0.1);
                  const Watchdog::Scope scope = rank.watch(dog);
                  rank.backend.device->stream(Lane::kHost).host_task("loop", {}, {}, [end] {
                    end.wait();
                  });
                  rank.wait_for(Lane::kHost, Doing::kRuns);
                  try {
                    // Until the watchdog has aborted the ranks, whenever that is.
                    require_that([&] {
                      ranks.barrier(Channel::kSubmit);
                      return false;
                    });
                  } catch (...) {
                    ended.set_value();
                    throw;
                  }
                }),
      BackendError);
  CHECK_THAT(log.text(), ContainsSubstring("rank 0 does not move for ") &&
                             ContainsSubstring("the host lane runs \"loop\""));
}

}  // namespace strata::test
