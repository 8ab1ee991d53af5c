// This file finds out whether chained kernels may overlap; launch.cuh is the contract. Code for
// older GPUs that the driver compiles anew for a new one does not wait by itself, so what counts is
// what the kernels were compiled for. All files are compiled for the same: one kernel stands for
// them.

#include "kernels/cuda/common/launch.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/operators.h"
#include "src/device/cuda/check.h"

namespace strata::cuda {

bool kernels_overlap() {
  static const bool overlap = [] {
    constexpr int kFirst = 90;  // compute capability 9.0
    cudaFuncAttributes attributes{};
    STRATA_CUDA_CHECK(cudaFuncGetAttributes(&attributes, norm_module()));
    return attributes.ptxVersion >= kFirst && attributes.binaryVersion >= kFirst;
  }();
  return overlap;
}

}  // namespace strata::cuda
