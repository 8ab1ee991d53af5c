// What became of host tasks, known to all host lanes of a CUDA device: once a task has thrown, or
// the device is lost, none of them runs what is left. The lanes' threads fail it and look at it,
// and the submitting thread rethrows.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace strata {

/// The first exception of a host task, and whether to skip tasks and waits. Any thread may call it.
class HostFailure {
 public:
  /// Keeps `exception` if it is the first, and abandons what has not run.
  void fail(std::exception_ptr exception) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::move(exception);
    }
    abandon();
  }
  /// Has all host lanes skip what has not run, and every wait.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  [[nodiscard]] bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  /// Rethrows the first exception, if there was one.
  void throw_if_failed() {
    const std::lock_guard lock(mutex_);
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::exception_ptr first_;  ///< guarded by mutex_
};

}  // namespace strata
