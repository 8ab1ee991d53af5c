// A realistic load for the link: chunks each way, as the stores copy them. host_bench runs it alone
// and beside compute.
#pragma once

#include <cstddef>

#include "bench/lane_times.h"
#include "strata/base/bytes.h"
#include "strata/device/arena.h"
#include "strata/store/chunks.h"

namespace strata::bench {

/// Copies between host and device, as the stores make them: in chunks, each way on a lane of its
/// own, between buffers that no cache holds.
class LinkTraffic {
 public:
  explicit LinkTraffic(Device& device)
      : device_(device),
        host_(device, Space::kPinned, 2 * kBytes, "host buffers"),
        on_device_(device, Space::kDevice, 2 * kBytes, "device buffers"),
        host_buffers_(host_.allocate("buffers", 2 * kBytes)),
        device_buffers_(on_device_.allocate("buffers", 2 * kBytes)) {}

  /// Submits that many chunks each way asked for.
  void submit(int chunks, bool in, bool out) {
    for (int i = 0; i < chunks; ++i, at_ = (at_ + kChunkBytes) % kBytes) {
      if (in) {
        copy_in_chunks(device_.stream(Lane::kWeightsIn), device_buffers_ + at_, host_buffers_ + at_,
                       kChunkBytes, {});
      }
      if (out) {
        copy_in_chunks(device_.stream(Lane::kOut), host_buffers_ + kBytes + at_,
                       device_buffers_ + kBytes + at_, kChunkBytes, {});
      }
    }
  }

  /// Of the chunks that lie in the window.
  [[nodiscard]] static double gb_per_s(const LaneTimes& times, Lane lane, const Window& within) {
    const double seconds = times.mean_seconds(lane, within);
    return seconds > 0 ? static_cast<double>(kChunkBytes) / seconds * 1e-9 : 0;
  }

 private:
  static constexpr std::size_t kBytes = kGiB;

  Device& device_;
  Arena host_;
  Arena on_device_;
  std::byte* host_buffers_;
  std::byte* device_buffers_;
  std::size_t at_ = 0;
};

}  // namespace strata::bench
