// What is known of a GPU: its name, its memory, the rate of its datasheet, and the memory that this
// process holds on it. Start-up messages, budgets and reports read it through the device.
#pragma once

#include <cstddef>
#include <string_view>

#include "strata/device/device.h"

namespace strata::cuda {

/// Returns name, memory and datasheet rate of a CUDA device, which is the calling thread's.
[[nodiscard]] DeviceInfo gpu_info(int device_index);

/// Returns the compute capability of a CUDA device as 10 * major + minor. It makes no context.
[[nodiscard]] int compute_capability(int device_index);

/// Returns the dense bf16 rate with f32 accumulation of the vendor's datasheet, TFLOP/s, by the
/// exact name that the driver reports; 0 if it is not listed here.
[[nodiscard]] double peak_bf16_tflops(std::string_view name);

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
