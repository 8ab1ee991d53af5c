// Runs the thread of a watchdog, which looks, writes, listens and judges, beat by beat. A verdict
// is repeated until all ranks that still speak have it as well, and so have logged it, before the
// job ends.
#include "strata/launch/watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "launch/rank_watch.h"
#include "strata/base/log.h"
#include "strata/base/start_thread.h"
#include "strata/comm/postbox.h"

namespace strata {

namespace {

/// Between two beats, at most; a limit has at least this many of them.
constexpr double kLongestBeatS = 1;
constexpr double kBeatsInLimit = 8;
/// From a verdict to the end, at least.
constexpr double kShortestGraceS = 1;
/// The same if a rank is gone: it may have failed, and then ends the job itself, by its exit code.
constexpr double kGoneGraceS = 5;
/// From a verdict to the end, at most: what the other ranks have to log it, on the busiest host.
constexpr double kLongestGraceS = 10;

}  // namespace

class Watchdog::Watcher {
 public:
  Watcher(Ranks& ranks, double limit_s, Time time)
      : ranks_(ranks),
        time_(std::move(time)),
        beat_s_(std::min(kLongestBeatS, limit_s / kBeatsInLimit)),
        limit_s_(limit_s),
        postbox_(ranks.make_postbox()),
        own_(limit_s),
        table_(ranks.rank(), ranks.size(), limit_s),
        thread_(start_thread("watchdog", [this] { run(); })) {}
  ~Watcher() { stop_.request_stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void watch(const Device* device, std::function<std::string()> failure) {
    const std::lock_guard lock(mutex_);
    device_ = device;
    failure_ = std::move(failure);
  }
  void pause(int more) {
    const std::lock_guard lock(mutex_);
    pauses_ += more;
  }

 private:
  void run();
  /// Waits for the next beat; returns false if the watchdog goes.
  bool sleep();
  /// Returns the seconds since the last call. Time in which this thread did not run at all, because
  /// the process was stopped or the machine slept, says nothing about anybody.
  double take_elapsed_s();
  /// Returns how this rank is.
  RankReport look(double elapsed_s);
  RankView view() const;
  /// Returns the verdict on the job, if there is one.
  std::optional<std::string> beat(double elapsed_s);
  /// Takes in what other ranks have written.
  void hear();
  /// Returns the verdict on a rank that has died, if one has.
  std::optional<std::string> death();
  void end_job(const std::string& verdict);

  Ranks& ranks_;
  const Time time_;
  const double beat_s_;
  const double limit_s_;
  double last_s_ = time_.clock();
  std::unique_ptr<Postbox> postbox_;
  StallWatch own_;
  RankTable table_;
  std::string at_;  ///< what this rank is at
  std::stop_source stop_;
  std::mutex mutex_;
  int pauses_ = 0;                  ///< that are under way; guarded by mutex_, as what follows
  const Device* device_ = nullptr;  ///< null: nothing is watched
  std::function<std::string()> failure_;  ///< of collectives
  std::jthread thread_;                   ///< last: it uses the rest
};

void Watchdog::Watcher::run() {
  std::optional<std::string> verdict;
  try {
    while (!verdict && sleep()) verdict = beat(take_elapsed_s());
    if (!verdict) postbox_->send(to_letter({.standing = Standing::kLeft}));
  } catch (const std::exception& error) {
    verdict = death();
    if (!verdict) {
      verdict = fmt::format("rank {} has lost its connection: {}", ranks_.rank(), error.what());
    }
  }
  if (verdict) end_job(*verdict);
}

bool Watchdog::Watcher::sleep() {
  time_.pause(beat_s_, stop_.get_token());
  return !stop_.stop_requested();
}

double Watchdog::Watcher::take_elapsed_s() {
  const double begin_s = std::exchange(last_s_, time_.clock());
  return std::min(last_s_ - begin_s, 2 * beat_s_);
}

RankView Watchdog::Watcher::view() const {
  RankView view;
  for (std::size_t i = 0; i < view.lanes.size(); ++i) {
    view.lanes[i] = device_->lane_state(static_cast<Lane>(i));
  }
  for (std::size_t i = 0; i < view.meets.size(); ++i) {
    view.meets[i] = ranks_.meets(static_cast<Channel>(i));
  }
  view.failure = failure_();
  return view;
}

RankReport Watchdog::Watcher::look(double elapsed_s) {
  const std::lock_guard lock(mutex_);
  if (device_ == nullptr || pauses_ > 0) {
    at_ = "it is not watched now";
    return own_.look_away();
  }
  const RankView now = view();
  at_ = text_of(now);
  return own_.look(now, elapsed_s);
}

void Watchdog::Watcher::hear() {
  while (const std::optional<Letter> letter = postbox_->receive()) {
    table_.heard(letter->from, from_letter(letter->bytes));
  }
}

std::optional<std::string> Watchdog::Watcher::beat(double elapsed_s) {
  hear();
  const RankReport report = look(elapsed_s);
  postbox_->send(to_letter(report));
  table_.heard(ranks_.rank(), report);
  if (const std::optional<std::string> verdict = table_.judge(elapsed_s)) return verdict;
  return death();
}

std::optional<std::string> Watchdog::Watcher::death() {
  const std::optional<int> gone = postbox_->gone();
  if (!gone) return std::nullopt;
  return fmt::format("rank {} is gone: its process has died, or failed and said why", *gone);
}

void Watchdog::Watcher::end_job(const std::string& verdict) {
  log::live("");
  log::error("the job ends with exit code {}: {}; this rank, {}: {}", kHungExitCode, verdict,
             ranks_.rank(), at_);
  const RankReport last{.standing = Standing::kStuck, .verdict = verdict};
  table_.heard(ranks_.rank(), last);
  try {
    const bool wait = ranks_.size() > 1;
    for (double past_s = 0; wait && past_s < std::min(kLongestGraceS, limit_s_);
         past_s += beat_s_) {
      postbox_->send(to_letter(last));
      hear();
      const std::optional<int> gone = postbox_->gone();
      const double shortest_s = std::min(gone ? kGoneGraceS : kShortestGraceS, limit_s_);
      if ((past_s >= shortest_s && table_.all_know(gone)) || !sleep()) break;
    }
    ranks_.abort(kHungExitCode);
  } catch (const std::exception& error) {
    log::debug("while the watchdog ended the job: {}", error.what());
  }
}

void Watchdog::pause_for(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  // Nothing notifies but the stop, which ends the wait before the predicate is asked.
  nothing.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
}

Watchdog::Watchdog(Ranks& ranks, std::optional<double> limit_s, Time time) {
  if (limit_s.value_or(0) > 0) {
    watcher_ = std::make_unique<Watcher>(ranks, *limit_s, std::move(time));
  }
}

Watchdog::~Watchdog() = default;

Watchdog::Scope Watchdog::watch(const Device& device, std::function<std::string()> failure) {
  if (watcher_) watcher_->watch(&device, std::move(failure));
  return {*this, &Watchdog::unwatch};
}

Watchdog::Scope Watchdog::pause() {
  if (watcher_) watcher_->pause(1);
  return {*this, &Watchdog::resume};
}

void Watchdog::unwatch() {
  if (watcher_) watcher_->watch(nullptr, {});
}

void Watchdog::resume() {
  if (watcher_) watcher_->pause(-1);
}

}  // namespace strata
