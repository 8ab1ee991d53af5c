#pragma once

// The one launcher of kernels, and the small arithmetic of grids. Included by .cu files only.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

struct Launch {
  std::string_view name;  ///< of the operator, for errors
  cudaStream_t stream = nullptr;
  dim3 grid = 1;
  dim3 block = 1;
  std::size_t shared_bytes = 0;  ///< dynamic; up to what the device has
  unsigned cluster = 1;          ///< blocks in x that form a cluster (sm_90 and later)
};

/// Launches `kernel` on the stream. A grid without blocks launches nothing. Throws BackendError
/// that names the operator.
template <class... Params, class... Args>
void launch(const Launch& where, void (*kernel)(Params...), Args&&... args) {
  if (where.grid.x == 0 || where.grid.y == 0 || where.grid.z == 0) return;
  try {
    if (where.shared_bytes > 0) {  // lifts the default limit of 48 KiB, static memory included
      STRATA_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(where.shared_bytes)));
    }
    cudaLaunchConfig_t config{};
    config.gridDim = where.grid;
    config.blockDim = where.block;
    config.dynamicSmemBytes = where.shared_bytes;
    config.stream = where.stream;
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {where.cluster, 1, 1};
    if (where.cluster > 1) {
      config.attrs = &cluster;
      config.numAttrs = 1;
    }
    STRATA_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
  } catch (const BackendError& error) {
    throw BackendError("operator " + std::string(where.name) + ": " + error.what());
  }
}

/// Smallest number of blocks that cover `count` at `per_block` each. Throws BackendError beyond the
/// largest grid.
[[nodiscard]] inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  if (blocks > 0x7fffffff) {
    throw BackendError("a tensor of " + std::to_string(count) + " items needs too many blocks");
  }
  return static_cast<unsigned>(blocks);
}

/// Threads for that many pieces of work, in whole warps, at most `most`.
[[nodiscard]] inline unsigned whole_warps(std::int64_t pieces, int most) {
  constexpr std::int64_t kWarpThreads = 32;
  return static_cast<unsigned>(std::clamp<std::int64_t>(
      (pieces + kWarpThreads - 1) / kWarpThreads * kWarpThreads, kWarpThreads, most));
}

/// Of the current device.
[[nodiscard]] inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// Multiprocessors of the current device.
[[nodiscard]] inline int multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount);
}

}  // namespace strata::cuda
