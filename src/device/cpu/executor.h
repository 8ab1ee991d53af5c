// Decides where and when the lanes' work runs on the cpu backend: inside the submitting call, on
// one thread per lane, or in a random order that respects every wait. The numbers of a run do not
// depend on it; the random order finds waits that are missing. The device owns one executor and
// pushes to it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "strata/device/device.h"

namespace strata {

/// One ticket per lane: up to where the lane must have finished, or has.
using Tickets = std::array<std::uint64_t, kLaneCount>;

/// One submission as it waits in its lane's queue.
struct Work {
  std::uint64_t ticket = 0;
  SubmissionLabel label{};
  Tickets after{};             ///< starts once each lane has finished up to here
  std::function<void()> task;  ///< may be empty
  bool timed = false;          ///< report when it ran to the trace
};

/// Runs the work of seven lanes. `push` and `wait` are called by the submitting thread. After the
/// first task that throws, the tasks of all lanes are skipped while their tickets still pass, so
/// whoever waits goes on.
class Executor {
 public:
  explicit Executor(TraceSink* trace) : trace_(trace) {}
  /// Drops work that has not begun, and waits for what is running.
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Takes one submission; tickets of a lane ascend. Blocks only if execution is eager.
  virtual void push(Lane lane, Work work) = 0;
  /// Blocks until the event has passed.
  virtual void wait(Event event) = 0;
  /// Rethrows the first exception of a task, if there was one.
  void throw_if_failed();
  /// Returns the seconds in which tasks of the host lane have run so far. Any thread.
  [[nodiscard]] double host_busy_s() const { return host_busy_us_.load() * 1e-6; }
  /// Returns what a lane is at. Any thread. Work that is queued counts only where lanes have
  /// threads of their own.
  [[nodiscard]] virtual LaneState state(Lane lane) const;

 protected:
  /// Runs the task, or skips it, and releases what it holds.
  void run(Lane lane, Work& work) noexcept;

 private:
  /// The task that a lane runs, or ran last.
  struct Current {
    mutable std::mutex mutex;
    LaneState state;  ///< guarded by mutex
  };

  TraceSink* trace_;
  std::array<Current, kLaneCount> current_;
  std::atomic<double> host_busy_us_{0};  ///< written by whoever runs the host lane's work
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

/// Makes the executor that `options.execution` asks for. `silence` is that of make_cpu_device.
[[nodiscard]] std::unique_ptr<Executor> make_executor(const DeviceOptions& options,
                                                      std::chrono::milliseconds silence);

}  // namespace strata
