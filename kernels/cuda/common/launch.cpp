// This file finds out whether chained kernels may overlap and blocks form clusters; launch.cuh is
// the contract. Code for older GPUs that the driver compiles anew for a new one does neither, so
// what counts is what the kernels were compiled for. All files are compiled for the same: one
// kernel stands for them.

#include "kernels/cuda/common/launch.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/operators.h"
#include "src/device/cuda/check.h"

namespace strata::cuda {

namespace {

/// Returns whether what runs on the current device was compiled for compute capability 9.0.
bool compiled_for_9() {
  static const bool compiled = [] {
    constexpr int kFirst = 90;
    cudaFuncAttributes attributes{};
    STRATA_CUDA_CHECK(cudaFuncGetAttributes(&attributes, norm_module()));
    return attributes.ptxVersion >= kFirst && attributes.binaryVersion >= kFirst;
  }();
  return compiled;
}

}  // namespace

bool kernels_overlap() { return compiled_for_9(); }

bool has_clusters() { return compiled_for_9(); }

}  // namespace strata::cuda
