// What the host knows of a lane whose work a driver queues, without asking it: how far the lane has
// come, by two numbers that the device writes to host memory on its way, and what it was given. A
// stream of such a lane keeps one, and whoever watches it asks from another thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "strata/device/lane_state.h"

namespace strata {

/// The submitting thread says what it does in the order of a submission: announce, begin, and told
/// if that is due. The numbers are the low 32 bits of tickets, which are compared modulo 2^32.
class QueueProgress {
 public:
  /// Takes the label of the submission that comes next.
  void announce(const SubmissionLabel& label);
  /// Says that the submission of this ticket is queued now. Returns whether the device is to write,
  /// before it, that it has begun: it is a collective, in which the lane may wait for other ranks.
  [[nodiscard]] bool begin(std::uint64_t ticket);
  /// Returns whether the device is to write, after that submission, that it has passed: who
  /// watches must see a lane move, and leave a collective.
  [[nodiscard]] bool due(std::uint64_t ticket) const {
    return in_collective_ || ticket - newest_told() >= kMostUntold;
  }
  /// Says that the device writes, after the submission of this ticket, that it has passed.
  void told(std::uint64_t ticket) { told_.store(ticket, std::memory_order_relaxed); }
  /// Returns the newest ticket after which the device writes.
  [[nodiscard]] std::uint64_t newest_told() const { return told_.load(std::memory_order_relaxed); }

  /// Returns what the lane is at when the device has written that `passed` has passed and that
  /// `begun` has begun: it runs a collective that has begun, and of all else a driver does not say
  /// whether it has. Any thread.
  [[nodiscard]] LaneState state(std::uint32_t passed, std::uint32_t begun) const;

 private:
  struct Collective {
    std::uint64_t ticket = 0;
    SubmissionLabel label{};
  };
  /// A write takes the device a microsecond, which is lost among so many submissions.
  static constexpr std::uint64_t kMostUntold = 256;
  /// The labels of so many of the newest collectives are kept.
  static constexpr std::size_t kKept = 256;

  bool in_collective_ = false;  ///< the submission under way is one
  std::atomic<std::uint64_t> told_{0};
  mutable std::mutex mutex_;
  SubmissionLabel newest_;                       ///< guarded by mutex_, as what follows
  std::array<Collective, kKept> collectives_{};  ///< a ring
  std::size_t count_ = 0;                        ///< of collectives so far
};

}  // namespace strata
