// The watchdog of a rank ends a job that no longer moves, and says who holds it up. `train` makes
// one on every rank and tells it what to watch. It has a thread of its own, which looks at what the
// lanes are at, and writes to the other ranks' watchdogs by a postbox: nothing that it does can be
// held up by what it watches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "strata/base/process.h"
#include "strata/comm/ranks.h"
#include "strata/device/device.h"

namespace strata {

/// The exit code of a job that a watchdog has ended.
inline constexpr int kHungExitCode = 5;

/// Watches one rank and listens to the others. While a Watch lives, a rank whose lanes have work
/// and do not move for the limit is stuck, unless it waits for other ranks or for a checkpoint to
/// be written. A rank of which nothing is heard for the limit is silent, whatever it does, and one
/// whose process has ended is gone. A stuck, silent or gone rank, or ranks that all wait for each
/// other, end the job: every rank logs whose fault it is, and when all have that can, or after ten
/// seconds, the ranks are aborted with kHungExitCode.
class Watchdog {
 public:
  /// How time passes for a watchdog, whose thread alone calls both.
  struct Time {
    std::function<double()> clock = steady_seconds;  ///< seconds that never go back
    /// Blocks for so many seconds, or until a stop is requested.
    std::function<void(double seconds, const std::stop_token& stop)> pause = pause_for;
  };
  /// The pause by the system's clock.
  static void pause_for(double seconds, const std::stop_token& stop);

  /// `limit_s` seconds without progress are too many; absent or 0: nothing is watched. All ranks
  /// make theirs with the same limit; `ranks` outlives it. Throws OutOfThreads.
  Watchdog(Ranks& ranks, std::optional<double> limit_s) : Watchdog(ranks, limit_s, Time()) {}
  Watchdog(Ranks& ranks, std::optional<double> limit_s, Time time);
  /// Tells the other ranks that this one says no more.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The time in which something is watched, or is not.
  class Scope {
   public:
    Scope(Scope&& other) noexcept : dog_(std::exchange(other.dog_, nullptr)), end_(other.end_) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope() {
      if (dog_ != nullptr) (dog_->*end_)();
    }

   private:
    friend class Watchdog;
    Scope(Watchdog& dog, void (Watchdog::*end)()) : dog_(&dog), end_(end) {}
    Watchdog* dog_;
    void (Watchdog::*end_)();
  };
  /// Watches the lanes of this device while the returned value lives, which goes first. `failure`
  /// says what went wrong where no lane sees it (Collectives::failure), or nothing; the watchdog's
  /// thread calls it.
  [[nodiscard]] Scope watch(const Device& device, std::function<std::string()> failure);
  /// Watches nothing of this rank while the returned value lives: for what may take long and is not
  /// work of lanes.
  [[nodiscard]] Scope pause();

 private:
  class Watcher;
  void unwatch();
  void resume();

  std::unique_ptr<Watcher> watcher_;  ///< null if nothing is watched
};

}  // namespace strata
