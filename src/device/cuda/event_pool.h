// CUDA events of one stream, recorded by ticket and used again after they have passed. Each
// CudaStream owns one; the submitting thread alone calls it. In a steady state it creates no
// events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>

namespace strata::cuda {

/// The events of one stream, by ticket. An event is recorded again only when the ticket it stood
/// for has passed; until the pool is as deep as the lane runs ahead, it grows.
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
    std::uint64_t ticket;
    cudaEvent_t event;
  };
  [[nodiscard]] cudaEvent_t take();

  std::deque<Recorded> recorded_;  ///< ascending tickets
  std::deque<cudaEvent_t> idle_;
  std::uint64_t newest_ = 0;
  std::uint64_t passed_ = 0;  ///< newest ticket whose event was taken back
};

}  // namespace strata::cuda
