// Puts the CUDA backend together: the device, its operators, and the CPU operators for its host
// lane.

#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <optional>

#include "kernels/cuda/attention/cudnn/cudnn_attention.h"
#include "kernels/cuda/cuda_kernels.h"
#include "src/device/cuda/cuda_device.h"
#include "src/device/cuda/gpu_info.h"
#include "src/device/cuda/self_test.h"
#include "strata/ops/backend.h"

namespace strata {

Backend make_cuda_backend(const BackendOptions& options) {
  Backend backend;
  backend.pool = std::make_shared<ThreadPool>(options.threads, options.cores);
  auto device = std::make_unique<CudaDevice>(options.device, options.cores);
  backend.host_kernels_owner = make_cpu_kernels(backend.pool);
  backend.kernels = std::make_unique<CudaKernels>(device->driver(), options);
  backend.device = std::move(device);
  return backend;
}

bool cudnn_available() noexcept { return cuda::CudnnAttention::available(); }

int cuda_device_count() noexcept {
  cuda::prepare_connections();
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool cuda_available() noexcept { return cuda_device_count() > 0; }

std::optional<DeviceInfo> cuda_device_info(int device_index) noexcept {
  if (device_index < 0 || device_index >= cuda_device_count()) return std::nullopt;
  try {
    return cuda::gpu_properties(device_index);
  } catch (const std::exception&) {  // a device that does not answer is none
    return std::nullopt;
  }
}

}  // namespace strata
