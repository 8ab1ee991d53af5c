// A lane of host tasks of a CUDA device, beside the streams: `host`, where sums, norms and AdamW
// run, and `save`, where checkpoints are written. The device owns both, the submitting thread
// submits to them, and each has one thread that does the work, in order, and makes no CUDA call. An
// exception of a task is kept in the context for the device to throw.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "src/device/cuda/cuda_stream.h"
#include "strata/device/stream.h"

namespace strata {

/// A host lane of a CUDA device: one worker thread that makes no CUDA call. It waits for other
/// lanes by reading their counters, and publishes its own ticket after every submission.
///
/// A task that throws fails all host lanes: their later waits and tasks are skipped, but tickets
/// are still published, so that whoever waits for them goes on.
class HostLane final : public Stream {
 public:
  /// `lane` is a host lane, and `context` must outlive it. Its thread is bound to `core`, unless
  /// that is -1.
  HostLane(Device& device, Lane lane, CudaLaneContext& context, int core);
  /// Abandons what has not run, here and on the other host lanes: the device is going.
  ~HostLane() override;

  void enqueue_host(std::function<void()> task) override;
  /// Returns what the lane is at. Any thread.
  [[nodiscard]] LaneState state() const;
  /// Blocks the submitting thread until `ticket` has passed, or for `limit`; true if it has passed.
  [[nodiscard]] bool wait_on_host(std::uint64_t ticket, std::chrono::milliseconds limit) const;

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
  /// A wait for another lane or, if the event is this lane's, one submission.
  struct Item {
    Event event;                   ///< waited for, or published when the task has run
    std::function<void()> task{};  ///< may be empty
    SubmissionLabel label{};       ///< of the submission, for profilers and watchers
    bool timed = false;
  };
  void push(Item item);
  void work(int core);
  void run(const Item& item);
  /// Keeps what the lane is at; mutex_ is held.
  void note(const Item& item);
  /// Polls until `event` has passed or work is to be skipped.
  void await(Event event) const;
  void require_host_memory(const void* memory, std::size_t bytes) const;

  CudaLaneContext& context_;
  Item current_;  ///< the submission under way
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Item> queue_;  ///< guarded by mutex_
  LaneState state_;         ///< guarded by mutex_; of a wait, without the work that waits
  bool stop_ = false;       ///< guarded by mutex_
  std::jthread worker_;     ///< last: starts when everything above exists
};

}  // namespace strata
