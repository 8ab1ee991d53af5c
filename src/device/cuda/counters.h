// Tickets in memory that host and device both see: how a stream waits for a host lane, and a
// host lane for any other, without a CPU thread in between. The device's lanes share one set of
// counters; passed() and publish() may be called by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "strata/device/lane.h"

namespace strata::cuda {

/// Pinned memory that the host and the device both read and write, zeroed; freed on destruction.
class MappedMemory {
 public:
  explicit MappedMemory(std::size_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  [[nodiscard]] std::byte* host() const { return host_; }
  [[nodiscard]] std::byte* device() const { return device_; }

 private:
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

/// Two 32-bit counters per lane, in pinned memory: the low bits of the newest ticket that the lane
/// is known to have passed, and of the newest collective that it has begun. Host lanes write theirs
/// from the host, device lanes by stream memory operations. 32 bits are compared modulo 2^32: two
/// lanes are never 2^31 tickets apart.
class TicketCounters {
 public:
  TicketCounters() : memory_(kStride * kLaneCount) {}

  [[nodiscard]] bool passed(Event event) const {
    const std::uint32_t seen = host(event.lane).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(seen - low(event.ticket)) >= 0;
  }
  void publish(Event event) const {
    host(event.lane).store(low(event.ticket), std::memory_order_release);
  }
  /// Returns the low bits of the newest ticket that the lane is known to have passed.
  [[nodiscard]] std::uint32_t last_passed(Lane lane) const {
    return host(lane).load(std::memory_order_acquire);
  }
  /// Returns those of the newest collective that the lane is known to have begun.
  [[nodiscard]] std::uint32_t last_begun(Lane lane) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_.host() + begun(lane)))
        .load(std::memory_order_acquire);
  }
  /// Returns the address of a counter for stream memory operations.
  [[nodiscard]] std::uint32_t* device(Lane lane) const {
    return reinterpret_cast<std::uint32_t*>(memory_.device() + offset(lane));
  }
  [[nodiscard]] std::uint32_t* device_begun(Lane lane) const {
    return reinterpret_cast<std::uint32_t*>(memory_.device() + begun(lane));
  }
  [[nodiscard]] static std::uint32_t low(std::uint64_t ticket) {
    return static_cast<std::uint32_t>(ticket);
  }

 private:
  /// Counters of different writers share no cache line (two lines are fetched at a time).
  static constexpr std::size_t kStride = 128;

  [[nodiscard]] static std::size_t offset(Lane lane) {
    return kStride * static_cast<std::size_t>(lane);
  }
  /// The second counter of a lane has the same writer, and so its cache line.
  [[nodiscard]] static std::size_t begun(Lane lane) { return offset(lane) + sizeof(std::uint32_t); }
  [[nodiscard]] std::atomic_ref<std::uint32_t> host(Lane lane) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_.host() + offset(lane)));
  }

  MappedMemory memory_;
};

}  // namespace strata::cuda
