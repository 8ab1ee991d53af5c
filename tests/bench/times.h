// What the benchmarks share as measurements: device times of submissions, medians, and random
// inputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/random.h"
#include "strata/device/trace.h"

namespace strata::bench {

/// Middle of the values, the upper one of two.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Collects when submissions ran, as the device stamps them. A backend reports to it while it is
/// active, at the latest when the device is synchronised.
class Times final : public TraceSink {
 public:
  struct Span {
    double begin_us;
    double end_us;
  };

  void submitted(TraceRecord) override {}
  void ran(Lane, std::uint64_t, double begin_us, double end_us) override {
    spans_.push_back({begin_us, end_us});
  }
  void arena(std::string_view, Space, ByteRange) override {}
  [[nodiscard]] bool active() const override { return active_; }

  /// Forgets what it has; submissions from now on are timed.
  void start() {
    spans_.clear();
    active_ = true;
  }
  void resume() { active_ = true; }
  void pause() { active_ = false; }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
  /// Of single submissions since start(); ends the timing.
  [[nodiscard]] double stop() {
    active_ = false;
    std::vector<double> milliseconds;
    for (const Span& span : spans_) milliseconds.push_back((span.end_us - span.begin_us) * 1e-3);
    return median(std::move(milliseconds));
  }

 private:
  bool active_ = false;
  std::vector<Span> spans_;
};

/// Random normal numbers: zeros run faster than real data. Drawn from a table, so that gigabytes
/// take no minutes.
inline void fill_normals(Bf16* to, std::size_t count) {
  constexpr std::size_t kDistinct = std::size_t{1} << 18;
  std::vector<Bf16> numbers(kDistinct);
  for (std::size_t i = 0; i < kDistinct; ++i) {
    numbers[i] = Bf16(static_cast<float>(random_normal(1, 1, i)));
  }
  for (std::size_t i = 0; i < count; ++i) to[i] = numbers[mix64(i) % kDistinct];
}

}  // namespace strata::bench
