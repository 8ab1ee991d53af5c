// One lane of a device as its users see it: copies, sets and host tasks, each a submission with a
// ticket, and waits for other lanes. Backends derive from Stream and put the work on their own
// queues; accounting, trace and reasons of waits live here once. Only the submitting thread calls
// it, and a call blocks only if the execution is eager or a queue in host memory is full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "strata/base/function_ref.h"
#include "strata/device/lane.h"
#include "strata/device/trace.h"

namespace strata {

class Device;

/// So many submissions of a lane may be queued in host memory, about as many as a CUDA stream
/// takes before its launches block.
inline constexpr std::uint64_t kMostQueued = 1024;
/// A queued submission takes at most so many bytes of host memory, what it captures included.
inline constexpr std::size_t kQueuedBytes = 1536;

/// One lane of a device: work runs in submission order. All members are called by the submitting
/// thread only and never block, unless the eager execution was asked for or the lane's queue in
/// host memory is full: then a submission waits until half of the queue has run.
class Stream {
 public:
  Stream(Device& device, Lane lane) : device_(device), lane_(lane) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] Lane lane() const { return lane_; }
  [[nodiscard]] Device& device() const { return device_; }

  /// Returns the event of everything submitted on this lane so far.
  [[nodiscard]] Event record();
  /// Makes work that is submitted on this lane from now on start after `event`. Throws
  /// std::logic_error for an event of work that was not submitted yet.
  void wait(Event event, WaitFor why);
  /// Copies between device memory and pinned host memory, or within either. Throws BackendError for
  /// memory that no arena of this device holds in pinned or device space.
  void copy(void* to, const void* from, std::size_t bytes, const Tag& tag);
  /// Sets every byte of `to` to `value`.
  void set(void* to, std::uint8_t value, std::size_t bytes, const Tag& tag);
  /// Runs `task` on a host thread in lane order: on kHost and kSave, and on any lane of the cpu
  /// backend.
  /// An exception marks the device failed (Device::throw_if_failed); later tasks of all lanes
  /// are skipped.
  /// `accesses` is called if somebody records, before the task can run; {} touches nothing.
  void host_task(std::string_view name, FunctionRef<Accesses()> accesses, const Tag& tag,
                 std::function<void()> task, const Cost& cost = {});
  /// Accounts for one submission (ticket, trace) around `enqueue`, which must put exactly this work
  /// on the lane's queue. `describe` is called first, and only if somebody records; {} touches
  /// nothing. Takes no memory of its own while nobody does. Backends and collectives call it.
  void submit(const SubmissionLabel& label, FunctionRef<Footprint()> describe,
              FunctionRef<void()> enqueue);
  /// Puts `task` on the lane's queue, from inside `submit`; CPU kernels and host collectives call
  /// it. Throws BackendError on a lane that has no host thread.
  virtual void enqueue_host(std::function<void()> task);
  /// Returns what a library is given to queue work of its own on this lane, from inside `submit`:
  /// the driver's queue, or this stream where no driver has one.
  [[nodiscard]] virtual void* native() { return this; }

 protected:
  /// Returns true if what is submitted takes host memory until it has run. Queues of a driver are
  /// bounded by the driver.
  [[nodiscard]] virtual bool queues_in_host_memory() const { return false; }
  virtual void do_record(std::uint64_t ticket) = 0;
  virtual void do_wait(Event event) = 0;
  virtual void do_copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void do_set(void* to, std::uint8_t value, std::size_t bytes) = 0;
  /// Called before anything else of a submission, for backends that tell a profiler of it.
  virtual void do_announce(const SubmissionLabel& /*label*/) {}
  /// Called before and after `enqueue`, so that a backend can number and time the submission.
  virtual void do_begin(std::uint64_t ticket) = 0;
  virtual void do_end(std::uint64_t ticket) = 0;

 private:
  friend class Device;
  /// Blocks while the lane's queue is full.
  void wait_for_room();
  /// Tells the trace of the submission that has just got its ticket, and of the waits before it.
  void record_submission(const SubmissionLabel& label, Footprint footprint);

  Device& device_;
  Lane lane_;
  std::uint64_t ticket_ = 0;                        ///< last submitted
  std::array<std::uint64_t, kLaneCount> waited_{};  ///< newest ticket per lane already waited for
  std::vector<Wait> pending_waits_;                 ///< for the next trace record
};

}  // namespace strata
