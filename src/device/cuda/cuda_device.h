// The CUDA device of a rank: five streams, two host threads, and what they share. The backend owns
// it; the submitting thread alone calls it and has this device selected.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "src/device/cuda/cuda_stream.h"
#include "src/device/cuda/gpu_info.h"
#include "src/device/cuda/host_lane.h"
#include "strata/device/device.h"

namespace strata {

/// Five CUDA streams and two host threads. Lanes run truly in parallel, so the execution options of
/// the CPU backend mean nothing here.
class CudaDevice final : public Device {
 public:
  /// Makes `options.device_index` the calling thread's CUDA device. Throws BackendError if it is
  /// not there, or if its streams do not run independently of each other. The thread of the lane
  /// kHost is bound to the first of `cores`, if there are any; that of kSave, which mostly waits
  /// for a disk, runs where it may.
  explicit CudaDevice(const DeviceOptions& options, std::span<const int> cores = {});
  ~CudaDevice() override;

  [[nodiscard]] DeviceInfo info() const override;
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) override;
  [[nodiscard]] std::size_t device_bytes_in_use() const override;
  [[nodiscard]] const cuda::Driver& driver() const { return context_.driver; }
  void throw_if_failed() override;
  [[nodiscard]] double host_busy_s() const override { return context_.host_busy_us.load() * 1e-6; }
  [[nodiscard]] LaneState lane_state(Lane lane) const override;

 protected:
  void do_wait(Event event) override;

 private:
  [[nodiscard]] HostLane& host_lane(Lane lane) { return static_cast<HostLane&>(stream(lane)); }
  [[nodiscard]] CudaStream& device_lane(Lane lane) {
    return static_cast<CudaStream&>(stream(lane));
  }
  /// Throws if the device is lost, and has the host lanes skip what waits for it.
  void require_alive();
  void wait_for_host_lane(Event event);

  int index_;  ///< first: nothing may touch CUDA before the device is selected
  CudaLaneContext context_;
  cuda::MemoryMeter meter_;
};

}  // namespace strata
