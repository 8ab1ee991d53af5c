// When the submissions of each lane ran, with windows to count those in. The parts of host_bench
// use it; times.h is for benchmarks of the compute lane alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string_view>
#include <vector>

#include "strata/device/trace.h"

namespace strata::bench {

/// A stretch of time on the clock of a trace.
struct Window {
  double begin_us = 0;
  double end_us = 0;
  [[nodiscard]] double seconds() const { return (end_us - begin_us) * 1e-6; }
  [[nodiscard]] bool holds(const Window& other) const {
    return begin_us <= other.begin_us && other.end_us <= end_us;
  }
};

/// Collects when the submissions of each lane ran. Complete once the device was synchronised.
class LaneTimes final : public TraceSink {
 public:
  void submitted(TraceRecord) override {}
  void ran(Lane lane, std::uint64_t, double begin_us, double end_us) override {
    const std::lock_guard lock(mutex_);  // the host lane reports from its own thread
    spans_[static_cast<std::size_t>(lane)].push_back({begin_us, end_us});
  }
  void arena(std::string_view, Space, ByteRange) override {}
  [[nodiscard]] bool active() const override { return active_; }

  /// Forgets what it has; submissions until stop() are timed.
  void start() {
    for (auto& spans : spans_) spans.clear();
    active_ = true;
  }
  void resume() { active_ = true; }
  void stop() { active_ = false; }

  [[nodiscard]] const std::vector<Window>& of(Lane lane) const {
    return spans_[static_cast<std::size_t>(lane)];
  }
  /// From the first submission of a lane to its last.
  [[nodiscard]] Window window(Lane lane) const {
    Window all{std::numeric_limits<double>::infinity(), 0};
    for (const Window& span : of(lane)) {
      all.begin_us = std::min(all.begin_us, span.begin_us);
      all.end_us = std::max(all.end_us, span.end_us);
    }
    return all;
  }
  /// Seconds that a submission of this lane takes on average, of those that lie in the window with
  /// all pauses between them; 0 without any.
  [[nodiscard]] double mean_seconds(Lane lane, const Window& within) const {
    Window all{std::numeric_limits<double>::infinity(), 0};
    double count = 0;
    for (const Window& span : of(lane)) {
      if (!within.holds(span)) continue;
      all.begin_us = std::min(all.begin_us, span.begin_us);
      all.end_us = std::max(all.end_us, span.end_us);
      ++count;
    }
    return count > 0 ? all.seconds() / count : 0;
  }

 private:
  std::mutex mutex_;
  bool active_ = false;
  std::array<std::vector<Window>, kLaneCount> spans_;
};

}  // namespace strata::bench
