// Runs the lanes' work in one of three ways. Each keeps, per lane, the newest ticket that has
// passed; work begins once the tickets that it waits for have.

#include "device/cpu/executor.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "strata/base/random.h"
#include "strata/base/start_thread.h"

namespace strata {

namespace {

std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns the first of the wanted events that has not passed, if one has not.
std::optional<Event> first_missing(const Tickets& wanted, const Tickets& passed) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (passed[i] < wanted[i]) return Event{static_cast<Lane>(i), wanted[i]};
  }
  return std::nullopt;
}

bool all_passed(const Tickets& wanted, const Tickets& passed) {
  return !first_missing(wanted, passed);
}

/// Which work of each lane has passed, and the submitting thread's wait for some of it. The
/// executor's mutex guards it.
class Passed {
 public:
  [[nodiscard]] const Tickets& tickets() const { return tickets_; }
  /// Returns whether the submitting thread waits for no more than that, and is to be woken.
  [[nodiscard]] bool add(Lane lane, std::uint64_t ticket) {
    tickets_[index_of(lane)] = ticket;
    return awaited_ && awaited_->lane == lane && awaited_->ticket <= ticket;
  }
  void wait_for(Event event, std::unique_lock<std::mutex>& lock) {
    awaited_ = event;
    submitter_.wait(lock, [&] { return tickets_[index_of(event.lane)] >= event.ticket; });
    awaited_.reset();
  }
  void wake_submitter() { submitter_.notify_one(); }

 private:
  Tickets tickets_{};
  std::optional<Event> awaited_;
  std::condition_variable submitter_;
};

/// Runs work inside the submitting call, so every wait has passed already.
class EagerExecutor final : public Executor {
 public:
  using Executor::Executor;
  void push(Lane lane, Work work) override { run(lane, work); }
  void wait(Event) override {}
};

/// Runs each lane on a thread of its own. All queues share a mutex, held for a few instructions per
/// submission.
class ThreadsExecutor final : public Executor {
 public:
  explicit ThreadsExecutor(TraceSink* trace) : Executor(trace) {
    try {
      for (std::size_t i = 0; i < threads_.size(); ++i) {
        const auto lane = static_cast<Lane>(i);
        threads_[i] = start_thread(std::string(name_of(lane)), [this, lane] { serve(lane); });
      }
    } catch (...) {
      stop();  // those that have started wait for work, and are joined now
      throw;
    }
  }

  ~ThreadsExecutor() override { stop(); }

  void push(Lane lane, Work work) override {
    Queue& queue = queues_[index_of(lane)];
    std::unique_lock lock(mutex_);
    queue.work.push_back(std::move(work));
    const bool wakes = ready(queue);
    lock.unlock();  // which the lane would wait for
    if (wakes) queue.wake.notify_one();
  }

  [[nodiscard]] LaneState state(Lane lane) const override {
    LaneState running = Executor::state(lane);
    if (running.doing == LaneState::Doing::kRuns) return running;
    const std::lock_guard lock(mutex_);
    const Queue& queue = queues_[index_of(lane)];
    if (queue.work.empty()) return running;
    const Work& next = queue.work.front();
    return {.doing = LaneState::Doing::kWaits,
            .ticket = next.ticket,
            .work = next.label,
            .waits_for = first_missing(next.after, passed_.tickets())};
  }

  void wait(Event event) override {
    std::unique_lock lock(mutex_);
    passed_.wait_for(event, lock);
  }

 private:
  void stop() {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (Queue& queue : queues_) queue.wake.notify_one();
  }

  struct Queue {
    std::deque<Work> work;
    std::condition_variable wake;
  };

  bool ready(const Queue& queue) const {
    return !queue.work.empty() && all_passed(queue.work.front().after, passed_.tickets());
  }

  void serve(Lane lane) {
    Queue& queue = queues_[index_of(lane)];
    std::unique_lock lock(mutex_);
    for (;;) {
      queue.wake.wait(lock, [&] { return stop_ || ready(queue); });
      if (stop_) return;
      Work work = std::move(queue.work.front());
      queue.work.pop_front();
      lock.unlock();
      run(lane, work);
      lock.lock();
      const bool ends_wait = passed_.add(lane, work.ticket);
      std::array<bool, kLaneCount> wakes{};
      for (std::size_t i = 0; i < kLaneCount; ++i) wakes[i] = ready(queues_[i]);
      lock.unlock();  // which those who wake would wait for
      for (std::size_t i = 0; i < kLaneCount; ++i) {
        if (wakes[i]) queues_[i].wake.notify_one();
      }
      if (ends_wait) passed_.wake_submitter();
      lock.lock();
    }
  }

  mutable std::mutex mutex_;
  std::array<Queue, kLaneCount> queues_;
  Passed passed_;
  bool stop_ = false;
  std::array<std::jthread, kLaneCount>
      threads_;  // last: they use the rest and must be joined before it goes
};

/// Runs all lanes' work on one thread, in a random order that respects every wait. The order is
/// drawn on the submitting thread, so it depends on the seed and on what is submitted, not on
/// timing.
class ShuffledExecutor final : public Executor {
 public:
  ShuffledExecutor(TraceSink* trace, std::uint64_t seed, std::chrono::milliseconds silence)
      : Executor(trace),
        seed_(seed),
        silence_(silence),
        thread_(start_thread("lanes", [this] { serve(); })) {}

  ~ShuffledExecutor() override {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_one();
  }

  void push(Lane lane, Work work) override {
    std::unique_lock lock(mutex_);
    queues_[index_of(lane)].push_back(std::move(work));
    ++unfinished_;
    // One piece at every other submission lets work pile up; now and then everything goes at once.
    constexpr std::uint64_t kDrainEvery = 16;
    const std::uint64_t bits = draw();
    choose(bits % kDrainEvery == 0 ? unfinished_ : bits & 1);
    lock.unlock();
    wake_.notify_one();
  }

  void wait(Event event) override {
    std::unique_lock lock(mutex_);
    choose(unfinished_);
    wake_.notify_one();
    passed_.wait_for(event, lock);
  }

 private:
  std::uint64_t draw() { return random_bits(seed_, 0, draws_++); }

  /// Moves up to `count` pieces of work into the order in which they will run.
  void choose(std::uint64_t count) {
    for (; count > 0; --count) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < queues_.size(); ++i) {
        const auto& queue = queues_[i];
        if (!queue.empty() && all_passed(queue.front().after, chosen_tickets_)) ready.push_back(i);
      }
      if (ready.empty()) return;
      const std::size_t lane = ready[draw() % ready.size()];
      chosen_tickets_[lane] = queues_[lane].front().ticket;
      chosen_.emplace_back(static_cast<Lane>(lane), std::move(queues_[lane].front()));
      queues_[lane].pop_front();
    }
  }

  void serve() {
    const auto wanted = [this] { return stop_ || !chosen_.empty(); };
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || unfinished_ > 0; });
      if (!wake_.wait_for(lock, silence_, wanted)) choose(unfinished_);
      if (stop_) return;
      auto [lane, work] = std::move(chosen_.front());
      chosen_.pop_front();
      lock.unlock();
      run(lane, work);
      lock.lock();
      --unfinished_;
      if (passed_.add(lane, work.ticket)) passed_.wake_submitter();
    }
  }

  std::uint64_t seed_;
  std::chrono::milliseconds silence_;
  std::uint64_t draws_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::array<std::deque<Work>, kLaneCount> queues_;
  std::deque<std::pair<Lane, Work>> chosen_;
  Tickets chosen_tickets_{};
  Passed passed_;
  std::uint64_t unfinished_ = 0;
  bool stop_ = false;
  std::jthread thread_;  // last: it uses the rest and must be joined before it goes
};

}  // namespace

void Executor::run(Lane lane, Work& work) noexcept {
  const std::function<void()> task = std::exchange(work.task, nullptr);
  if (!task || failed_.load(std::memory_order_acquire)) return;
  Current& current = current_[index_of(lane)];
  const auto note = [&](LaneState::Doing doing) {
    const std::lock_guard lock(current.mutex);
    current.state = {.doing = doing, .ticket = work.ticket, .work = work.label};
  };
  note(LaneState::Doing::kRuns);
  const double begin_us = now_us();
  try {
    task();
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
  const double end_us = now_us();
  note(LaneState::Doing::kNothing);
  if (lane == Lane::kHost) host_busy_us_.store(host_busy_us_.load() + end_us - begin_us);
  if (work.timed) trace_->ran(lane, work.ticket, begin_us, end_us);
}

LaneState Executor::state(Lane lane) const {
  const Current& current = current_[index_of(lane)];
  const std::lock_guard lock(current.mutex);
  return current.state;
}

void Executor::throw_if_failed() {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(failure_mutex_);
  std::rethrow_exception(failure_);
}

std::unique_ptr<Executor> make_executor(const DeviceOptions& options,
                                        std::chrono::milliseconds silence) {
  switch (options.execution) {
    case Execution::kEager: return std::make_unique<EagerExecutor>(options.trace);
    case Execution::kThreads: return std::make_unique<ThreadsExecutor>(options.trace);
    case Execution::kShuffled:
      return std::make_unique<ShuffledExecutor>(options.trace, options.shuffle_seed, silence);
  }
  return nullptr;
}

}  // namespace strata
