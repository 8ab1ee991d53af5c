// Times the vendor's allocator of pinned memory, for comparison with strata's own.

#include <cuda_runtime_api.h>

#include <chrono>
#include <stdexcept>

#include "bench/host_bench.h"

namespace strata::bench {

double vendor_pinning_seconds(std::size_t bytes) {
  void* memory = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) != cudaSuccess) {
    throw std::runtime_error("cudaHostAlloc failed");
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  cudaFreeHost(memory);
  return seconds.count();
}

}  // namespace strata::bench
