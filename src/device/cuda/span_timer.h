// Measures when each submission of the device lanes ran, for traces. The lanes share one timer,
// whose clock the host lanes use too; nothing is recorded while no trace is active. A pair of
// events brackets each submission, and flush() reads them after they have passed.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "strata/device/lane.h"
#include "strata/device/trace.h"

namespace strata::cuda {

/// Times submissions for the trace, on one clock: microseconds since construction, host steady
/// clock. Device spans are pairs of CUDA events; they are reported by `flush`, since only then are
/// they known. Does nothing while the sink is not active. Submitting thread only, but for now_us.
class SpanTimer {
 public:
  /// `sink` may be null.
  explicit SpanTimer(TraceSink* sink);
  ~SpanTimer();
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

  [[nodiscard]] bool active() const { return sink_ != nullptr && sink_->active(); }
  [[nodiscard]] double now_us() const;
  [[nodiscard]] TraceSink* sink() const { return sink_; }

  /// begin() and end() stand around the work of one submission on a device lane.
  void begin(Event at, cudaStream_t stream);
  void end(Event at, cudaStream_t stream);
  /// Reports every span that has ended.
  void flush();

 private:
  struct Span {
    Event at;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  [[nodiscard]] cudaEvent_t take();
  [[nodiscard]] double at_us(cudaEvent_t event) const;
  void set_origin();

  TraceSink* sink_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  cudaStream_t clock_ = nullptr;  ///< carries nothing but the origin, so that it is never held up
  cudaEvent_t origin_ = nullptr;
  double origin_us_ = 0;
  std::array<cudaEvent_t, kLaneCount> open_{};  ///< begin events of submissions under way
  std::deque<Span> spans_;
  std::vector<cudaEvent_t> idle_;
};

}  // namespace strata::cuda
