// The host lane of a CUDA device: sums, norms and AdamW run here, in order, beside the streams. The
// device owns it, the submitting thread submits to it, and its one thread does the work and makes
// no CUDA call. An exception of a task is kept for throw_if_failed().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "src/device/cuda/cuda_stream.h"
#include "strata/device/stream.h"

namespace strata {

/// The host lane of a CUDA device: one worker thread that makes no CUDA call. It waits for device
/// lanes by reading their counters, and publishes its own ticket after every submission.
///
/// A task that throws marks the lane failed: later waits and tasks are skipped, but their tickets
/// are still published, so that device lanes behind them drain.
class HostLane final : public Stream {
 public:
  /// `context` must outlive the lane. Its thread is bound to `core`, unless that is -1.
  HostLane(Device& device, CudaLaneContext& context, int core);
  /// Abandons what has not run.
  ~HostLane() override;

  void enqueue_host(std::function<void()> task) override;
  /// Blocks the submitting thread until `ticket` has passed, or for `limit`; true if it has passed.
  [[nodiscard]] bool wait_on_host(std::uint64_t ticket, std::chrono::milliseconds limit) const;
  /// Skips what has not run and every wait; used when the device is lost.
  void abandon();
  /// Rethrows the first exception of a task, if there was one.
  void throw_if_failed();

 protected:
  [[nodiscard]] bool queues_in_host_memory() const override { return true; }
  void do_record(std::uint64_t ticket) override;
  void do_wait(Event event) override;
  void do_copy(void* to, const void* from, std::size_t bytes) override;
  void do_set(void* to, std::uint8_t value, std::size_t bytes) override;
  void do_announce(const SubmissionLabel& label) override;
  void do_begin(std::uint64_t ticket) override;
  void do_end(std::uint64_t ticket) override;

 private:
  /// A wait for a device lane, or (with the lane kHost) one submission.
  struct Item {
    Event event;                   ///< waited for, or published when the task has run
    std::function<void()> task{};  ///< may be empty
    std::string_view name{};       ///< of the submission, for profilers
    Tag tag{};
    bool timed = false;
  };
  void push(Item item);
  void work(int core);
  void run(const Item& item);
  /// Polls until `event` has passed or the lane is to skip its work.
  void await(Event event) const;
  void require_host_memory(const void* memory, std::size_t bytes) const;

  CudaLaneContext& context_;
  Item current_;  ///< the submission under way
  std::atomic<bool> skip_ = false;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Item> queue_;      ///< guarded by mutex_
  bool stop_ = false;           ///< guarded by mutex_
  std::exception_ptr failure_;  ///< guarded by mutex_
  std::jthread worker_;         ///< last: starts when everything above exists
};

}  // namespace strata
