// This file stands in for the sm_90a kernels where STRATA_CUDA_ARCHITECTURES has no 90a.
// hopper_available() is false, so attention.cu never picks these launches; one that is called all
// the same throws BackendError and says how to build the kernels.

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

[[noreturn]] void refuse() {
  throw BackendError(
      "this program was built without kernels for sm_90a; add 90a-real to "
      "STRATA_CUDA_ARCHITECTURES");
}

}  // namespace

bool hopper_available() { return false; }
std::vector<const void*> hopper_modules() { return {}; }
void launch_hopper_forward(cudaStream_t /*stream*/, const AttentionForward& /*op*/,
                           TileCounter* /*counter*/) {
  refuse();
}
void launch_hopper_backward(cudaStream_t /*stream*/, const AttentionBackward& /*op*/,
                            TileCounter* /*counter*/) {
  refuse();
}

}  // namespace strata::cuda
