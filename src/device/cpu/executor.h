#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "strata/device/device.h"

namespace strata {

/// Per lane a ticket: those that must have passed, or those that have.
using Tickets = std::array<std::uint64_t, kLaneCount>;

/// One submission as it waits in its lane's queue.
struct Work {
  std::uint64_t ticket = 0;
  Tickets after{};             ///< starts once each lane has finished up to here
  std::function<void()> task;  ///< may be empty
  bool timed = false;          ///< report when it ran to the trace
};

/// Decides where and when the work of six lanes runs. `push` and `wait` are called by the
/// submitting thread. After the first task that throws, the tasks of all lanes are skipped while
/// their tickets still pass, so whoever waits goes on.
class Executor {
 public:
  explicit Executor(TraceSink* trace) : trace_(trace) {}
  /// Work that has not begun is dropped.
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  virtual void push(Lane lane, Work work) = 0;
  /// Blocks until the event has passed.
  virtual void wait(Event event) = 0;
  void throw_if_failed();
  /// In which tasks of the host lane ran.
  [[nodiscard]] double host_busy_s() const { return host_busy_us_.load() * 1e-6; }

 protected:
  /// Runs the task, or skips it, and releases what it holds.
  void run(Lane lane, Work& work) noexcept;

 private:
  TraceSink* trace_;
  std::atomic<double> host_busy_us_{0};  ///< written by whoever runs the host lane's work
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

[[nodiscard]] std::unique_ptr<Executor> make_executor(const DeviceOptions& options);

}  // namespace strata
