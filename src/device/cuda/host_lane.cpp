// Runs host tasks in order. Waits for other lanes poll their counters: a short spin, then growing
// pauses, which delay a task less than a copy's start-up does.

#include "src/device/cuda/host_lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "src/device/task.h"
#include "strata/base/error.h"
#include "strata/base/start_thread.h"
#include "strata/base/this_thread.h"
#include "strata/device/device.h"

namespace strata {
namespace {

using std::chrono::microseconds;

/// A short spin catches work that is about to finish; then the pauses grow to this length, which
/// costs the waiter next to nothing.
constexpr int kSpins = 2000;
constexpr microseconds kLongestPause{50};

/// Returns once `done` is true.
template <class Done>
void poll(const Done& done) {
  for (int i = 0; i < kSpins; ++i) {
    if (done()) return;
  }
  for (microseconds pause{1}; !done(); pause = std::min(2 * pause, kLongestPause)) {
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

HostLane::HostLane(Device& device, Lane lane, CudaLaneContext& context, int core)
    : Stream(device, lane),
      context_(context),
      worker_(start_thread("strata-" + std::string(name_of(lane)), [this, core] { work(core); })) {}

HostLane::~HostLane() {
  context_.host_failure.abandon();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  filled_.notify_one();
  worker_.join();
}

bool HostLane::wait_on_host(std::uint64_t ticket, std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto passed = [&] { return context_.counters.passed({lane(), ticket}); };
  poll([&] { return passed() || std::chrono::steady_clock::now() >= deadline; });
  return passed();
}

void HostLane::enqueue_host(std::function<void()> task) {
  append_task(current_.task, std::move(task));
}

// Every submission publishes its ticket, so there is nothing to do for a record.
void HostLane::do_record(std::uint64_t) {}

void HostLane::do_wait(Event event) {
  // Host lanes publish every ticket by themselves.
  if (!is_host_lane(event.lane)) {
    static_cast<CudaStream&>(device().stream(event.lane)).tell_host(event.ticket);
  }
  push({.event = event});
}

void HostLane::do_copy(void* to, const void* from, std::size_t bytes) {
  require_host_memory(to, bytes);
  require_host_memory(from, bytes);
  enqueue_host([=] { std::memcpy(to, from, bytes); });
}

void HostLane::do_set(void* to, std::uint8_t value, std::size_t bytes) {
  require_host_memory(to, bytes);
  enqueue_host([=] { std::memset(to, value, bytes); });
}

void HostLane::require_host_memory(const void* memory, std::size_t bytes) const {
  const ByteRange range{static_cast<const std::byte*>(memory), bytes};
  if (device().space_of(range) == Space::kDevice) {
    throw BackendError("the " + std::string(name_of(lane())) +
                       " lane cannot touch device memory: copy it on a device lane");
  }
}

void HostLane::do_announce(const SubmissionLabel& label) {
  current_ = {.event = {}, .label = label};
}

void HostLane::do_begin(std::uint64_t ticket) {
  current_.event = {lane(), ticket};
  current_.timed = context_.timer.active();
}

void HostLane::do_end(std::uint64_t) { push(std::exchange(current_, {})); }

void HostLane::push(Item item) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  filled_.notify_one();
}

void HostLane::work(int core) {
  // If this is refused the pool's workers are too, and they say so.
  if (core >= 0) (void)bind_this_thread({&core, 1});
  std::unique_lock lock(mutex_);
  while (true) {
    filled_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    note(item);
    lock.unlock();
    if (item.event.lane == lane()) {
      run(item);
      context_.counters.publish(item.event);
    } else {
      await(item.event);
    }
    item = {};  // what the task holds goes before the lock is taken
    lock.lock();
    state_.doing = LaneState::Doing::kNothing;
  }
}

void HostLane::note(const Item& item) {
  if (item.event.lane == lane()) {
    state_ = {.doing = LaneState::Doing::kRuns, .ticket = item.event.ticket, .work = item.label};
    return;
  }
  state_ = {.doing = LaneState::Doing::kWaits, .ticket = state_.ticket, .waits_for = item.event};
}

LaneState HostLane::state() const {
  const std::lock_guard lock(mutex_);
  LaneState state = state_;
  if (state.doing != LaneState::Doing::kWaits) return state;
  const auto next = std::ranges::find(queue_, lane(), [](const Item& i) { return i.event.lane; });
  if (next != queue_.end()) state.work = next->label;
  return state;
}

void HostLane::await(Event event) const {
  poll([&] { return context_.counters.passed(event) || context_.host_failure.abandoned(); });
}

void HostLane::run(const Item& item) {
  if (context_.host_failure.abandoned()) return;
  try {
    const cuda::ProfilerRange range(context_.profiler, lane(), item.label.name, item.label.tag);
    const double begin_us = context_.timer.now_us();
    if (item.task) item.task();
    const double end_us = context_.timer.now_us();
    if (lane() == Lane::kHost) {
      context_.host_busy_us.store(context_.host_busy_us.load() + end_us - begin_us);
    }
    if (item.timed) context_.timer.sink()->ran(lane(), item.event.ticket, begin_us, end_us);
  } catch (...) {
    context_.host_failure.fail(std::current_exception());
  }
}

}  // namespace strata
