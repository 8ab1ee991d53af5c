// This file has the one launcher of kernels, and the small arithmetic of grids. Every .cu file
// launches through it; no .cpp file may include it. A failure throws BackendError that names the
// operator; nothing here blocks or allocates.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/common/launch.h"
#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

/// Where and how a kernel is launched.
struct Launch {
  std::string_view name;  ///< the operator, for errors
  cudaStream_t stream = nullptr;
  dim3 grid = 1;
  dim3 block = 1;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory, up to what the device has
  dim3 cluster = 1;              ///< blocks that form a cluster (sm_90 and later)
  bool chained = false;          ///< the kernel calls wait_for_previous(), see chain.cuh
};

/// Returns whether its blocks form clusters.
[[nodiscard]] constexpr bool forms_clusters(const Launch& where) {
  return where.cluster.x * where.cluster.y * where.cluster.z > 1;
}

/// Returns the launch of a kernel that calls wait_for_previous().
[[nodiscard]] inline Launch chained(Launch where) {
  where.chained = true;
  return where;
}

/// Returns an attribute of the current device.
[[nodiscard]] inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// Returns the number of multiprocessors of the current device.
[[nodiscard]] inline int multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount);
}

/// Returns the most shared memory that a block has on the current device.
[[nodiscard]] inline std::size_t most_shared_bytes() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// Lifts the kernel's limit of 48 KiB of shared memory. Throws BackendError that says what a block
/// asks and what the device has.
inline void allow_shared_memory(const void* kernel, std::size_t bytes) {
  const cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(bytes));
  if (code == cudaSuccess || bytes <= most_shared_bytes()) return STRATA_CUDA_CHECK(code);
  cudaGetLastError();  // take it away, or the next launch would report it
  throw BackendError("a block takes " + std::to_string(bytes) +
                     " bytes of shared memory; this GPU " + "of compute capability " +
                     std::to_string(device_attribute(cudaDevAttrComputeCapabilityMajor)) + "." +
                     std::to_string(device_attribute(cudaDevAttrComputeCapabilityMinor)) + " has " +
                     std::to_string(most_shared_bytes()) + ": the operator's rows are too wide");
}

/// A launch as the runtime takes it. It also lifts the kernel's limit of 48 KiB of shared memory,
/// static memory included, where the launch needs more.
class LaunchConfig {
 public:
  LaunchConfig(const Launch& where, const void* kernel) {
    if (where.shared_bytes > 0) allow_shared_memory(kernel, where.shared_bytes);
    config_.gridDim = where.grid;
    config_.blockDim = where.block;
    config_.dynamicSmemBytes = where.shared_bytes;
    config_.stream = where.stream;
    config_.attrs = attributes_.data();
    if (forms_clusters(where)) {
      cudaLaunchAttribute& cluster = attributes_[config_.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {where.cluster.x, where.cluster.y, where.cluster.z};
    }
    if (where.chained && kernels_overlap()) {
      cudaLaunchAttribute& chained = attributes_[config_.numAttrs++];
      chained.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      chained.val.programmaticStreamSerializationAllowed = 1;
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
  [[nodiscard]] const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchConfig_t config_{};
  std::array<cudaLaunchAttribute, 2> attributes_{};
};

/// Calls `body` and returns what it returns; a BackendError of it leaves with the operator's name
/// before its text.
template <class Body>
auto naming(std::string_view name, const Body& body) {
  try {
    return body();
  } catch (const BackendError& error) {
    throw BackendError("operator " + std::string(name) + ": " + error.what());
  }
}

/// Launches `kernel` on the stream. A grid without blocks launches nothing. Throws BackendError
/// that names the operator.
template <class... Params, class... Args>
void launch(const Launch& where, void (*kernel)(Params...), Args&&... args) {
  if (where.grid.x == 0 || where.grid.y == 0 || where.grid.z == 0) return;
  naming(where.name, [&] {
    const LaunchConfig config(where, reinterpret_cast<const void*>(kernel));
    STRATA_CUDA_CHECK(cudaLaunchKernelEx(config.get(), kernel, std::forward<Args>(args)...));
  });
}

/// Returns how many clusters of this launch (blocks, if they are alone) the device runs at a time,
/// at least 1; the grid does not matter.
template <class... Params>
[[nodiscard]] int resident(Launch where, void (*kernel)(Params...)) {
  return naming(where.name, [&] {
    where.grid = where.cluster;
    const LaunchConfig config(where, reinterpret_cast<const void*>(kernel));
    int count = 0;
    if (forms_clusters(where)) {
      STRATA_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&count, kernel, config.get()));
    } else {
      STRATA_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &count, kernel, static_cast<int>(where.block.x), where.shared_bytes));
      count *= multiprocessors();
    }
    return std::max(count, 1);
  });
}

/// Returns the smallest number of blocks that cover `count` at `per_block` each. Throws
/// BackendError beyond the largest grid.
[[nodiscard]] inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  if (blocks > 0x7fffffff) {
    throw BackendError("a tensor of " + std::to_string(count) + " items needs too many blocks");
  }
  return static_cast<unsigned>(blocks);
}

/// Returns the threads for that many pieces of work, in whole warps, at most `most`.
[[nodiscard]] inline unsigned whole_warps(std::int64_t pieces, int most) {
  constexpr std::int64_t kWarpThreads = 32;
  return static_cast<unsigned>(std::clamp<std::int64_t>(
      (pieces + kWarpThreads - 1) / kWarpThreads * kWarpThreads, kWarpThreads, most));
}

}  // namespace strata::cuda
