// What is known of a GPU: its name, its memory, the rate of its datasheet, and the memory that this
// process holds on it. Start-up messages, budgets and reports read it through the device.
#pragma once

#include <cstddef>

#include "strata/device/device.h"

namespace strata::cuda {

/// Returns name, memory, datasheet rate, address and versions of a CUDA device, but not what is
/// free. It makes no context.
[[nodiscard]] DeviceInfo gpu_properties(int device_index);
/// Returns likewise what is known of the calling thread's device, and what is free on it.
[[nodiscard]] DeviceInfo gpu_info(int device_index);

/// Returns the compute capability of a CUDA device as 10 * major + minor. It makes no context.
[[nodiscard]] int compute_capability(int device_index);

/// Measures the device memory of this process, context and libraries included. It asks the driver's
/// management library (NVML); where that does not know this process (some containers), the figure
/// is everything in use on the device.
class MemoryMeter {
 public:
  explicit MemoryMeter(int device_index);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;
  [[nodiscard]] std::size_t bytes_in_use() const;

 private:
  void open(int device_index);

  void* library_ = nullptr;  ///< from dlopen; null: not there
  void* device_ = nullptr;   ///< NVML's handle
};

}  // namespace strata::cuda
