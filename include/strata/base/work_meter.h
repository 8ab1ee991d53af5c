// Shows how far work is while it lasts: a line below the log on a terminal, which is gone before
// anything else is said there. A thread of its own draws it, so that work shows which tells nothing
// for a while. Whoever starts work for people makes a meter, commands and sessions; the layers
// below only count in the WorkProgress that they are given.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "strata/base/work_progress.h"

namespace strata {

class WorkMeter {
 public:
  /// What happens where standard error is no terminal, or not rank 0's.
  enum class Elsewhere {
    kSilent,
    kLogged  ///< a line of the log twice a minute: for work of which a job may have hours
  };

  /// How long it waits before each look.
  struct Pauses {
    double draw_s = 0.25;
    double log_s = 30;
  };

  /// `progress` outlives the meter. Where nothing is to be shown, this does nothing; nor does it
  /// fail where the system refuses the thread. To be made after log::configure().
  explicit WorkMeter(const WorkProgress& progress, Elsewhere elsewhere = Elsewhere::kSilent)
      : WorkMeter(progress, elsewhere, Pauses()) {}
  WorkMeter(const WorkProgress& progress, Elsewhere elsewhere, const Pauses& pauses);
  ~WorkMeter();  ///< takes the line away, also where an error ends the work
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

 private:
  void draw();
  void log_now_and_then();
  /// Waits so long, or until the meter goes. Returns whether it goes on.
  [[nodiscard]] bool pause(double seconds);

  const WorkProgress& progress_;
  const Pauses pauses_;
  std::mutex mutex_;
  bool over_ = false;  ///< guarded by mutex_
  std::condition_variable ended_;
  std::jthread thread_;  ///< last, so that it ends before what it uses
};

}  // namespace strata
