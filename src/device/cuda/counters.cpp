// Allocates the mapped, pinned memory that counters live in.

#include "src/device/cuda/counters.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "src/device/cuda/check.h"

namespace strata::cuda {

MappedMemory::MappedMemory(std::size_t bytes) {
  void* host = nullptr;
  STRATA_CUDA_CHECK(cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  host_ = static_cast<std::byte*>(host);
  std::memset(host_, 0, bytes);
  void* device = nullptr;
  STRATA_CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  device_ = static_cast<std::byte*>(device);
}

MappedMemory::~MappedMemory() { STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaFreeHost(host_)); }

}  // namespace strata::cuda
