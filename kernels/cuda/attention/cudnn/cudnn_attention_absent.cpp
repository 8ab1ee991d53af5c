// This file is CudnnAttention of a build that found no cuDNN. Its constructor throws ConfigError
// and says how to build with cuDNN, so none of its other functions is ever called.

#include "kernels/cuda/attention/cudnn/cudnn_attention.h"
#include "strata/base/error.h"

namespace strata::cuda {

class CudnnAttention::Impl {};

bool CudnnAttention::available() { return false; }

CudnnAttention::CudnnAttention() {
  throw ConfigError(
      "kernels.attention \"cudnn\": this program was built without cuDNN; choose \"auto\", or "
      "build it "
      "where CMake finds cuDNN 9.16 or later (CUDNN_ROOT names its folder)");
}

CudnnAttention::~CudnnAttention() = default;
void CudnnAttention::prepare(const AttentionForward& /*op*/) {}
void CudnnAttention::prepare(const AttentionBackward& /*op*/) {}
std::size_t CudnnAttention::workspace_bytes() const { return 0; }
void CudnnAttention::forward(cudaStream_t /*stream*/, const AttentionForward& /*op*/) {}
void CudnnAttention::backward(cudaStream_t /*stream*/, const AttentionBackward& /*op*/) {}

}  // namespace strata::cuda
