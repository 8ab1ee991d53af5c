// CUDA events of one stream, recorded by ticket and used again after they have passed. Each
// CudaStream owns one; the submitting thread alone calls it. In a steady state it creates no
// events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::cuda {

/// The events of one stream, by ticket. An event is recorded again only when the ticket it stood
/// for has passed; until the pool is twice as deep as the lane runs ahead, it grows. From then on
/// it makes no event, takes no memory and asks the device once for half of its events.
class EventPool {
 public:
  /// Creates `initial` events.
  explicit EventPool(int initial);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Records `ticket` at the tail of `stream`; does nothing if it, or a later one, is recorded.
  void record(std::uint64_t ticket, cudaStream_t stream);
  /// Returns the newest ticket recorded, or 0 if none is.
  [[nodiscard]] std::uint64_t newest() const { return newest_; }
  /// Returns the event recorded at `ticket` or, if none was, at the earliest one after it; null if
  /// the ticket is known to have passed. Throws BackendError if nothing was recorded at or after
  /// it.
  [[nodiscard]] cudaEvent_t find(std::uint64_t ticket) const;

 private:
  struct Recorded {
    std::uint64_t ticket;  ///< that the event stands for; old if it is idle
    cudaEvent_t event;
  };
  /// The i-th of the recorded events, the oldest first; those behind them are idle.
  [[nodiscard]] const Recorded& at(std::size_t i) const {
    return ring_[(oldest_ + i) % ring_.size()];
  }
  /// Makes events idle: the older half if it has passed, or else a new one.
  void make_room();

  std::vector<Recorded> ring_;  ///< every event
  std::size_t oldest_ = 0;      ///< index of the oldest recorded event
  std::size_t recorded_ = 0;    ///< from there on in the ring, their tickets ascending
  std::uint64_t newest_ = 0;
  std::uint64_t passed_ = 0;  ///< newest ticket whose event was taken back
};

}  // namespace strata::cuda
