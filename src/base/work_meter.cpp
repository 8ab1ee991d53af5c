// Draws how far work is, on a thread that asks for a text some times a second. What it has drawn it
// takes away itself, so a meter that never showed anything leaves alone what others show.

#include "strata/base/work_meter.h"

#include <chrono>
#include <string>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/start_thread.h"

namespace strata {

WorkMeter::WorkMeter(const WorkProgress& progress, Elsewhere elsewhere, const Pauses& pauses)
    : progress_(progress), pauses_(pauses) {
  const bool shows = log::shows_live();
  if (!shows && elsewhere == Elsewhere::kSilent) return;
  try {
    thread_ = start_thread("meter", [this, shows] { shows ? draw() : log_now_and_then(); });
  } catch (const OutOfThreads& refused) {
    log::debug("progress is not shown: {}", refused.what());
  }
}

WorkMeter::~WorkMeter() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
}

bool WorkMeter::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return !ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
}

void WorkMeter::draw() {
  bool drawn = false;
  while (pause(pauses_.draw_s)) {
    const std::string text = progress_.text();
    if (drawn || !text.empty()) log::live(text);
    drawn = !text.empty();
  }
  if (drawn) log::live("");
}

void WorkMeter::log_now_and_then() {
  while (pause(pauses_.log_s)) {
    if (const std::string text = progress_.text(); !text.empty()) log::info("{}", text);
  }
}

}  // namespace strata
