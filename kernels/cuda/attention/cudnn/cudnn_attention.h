// This file declares attention through the fused engines of cuDNN, for comparison: CudaKernels has
// it if kernels.attention is "cudnn", for segments of one uniform_length. There are two sources,
// one for builds that found cuDNN and one that refuses to be constructed.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "strata/ops/attention.h"

namespace strata::cuda {

/// Runs bf16, segments of one uniform_length and head dims that are multiples of 8 up to 256;
/// throws BackendError, naming key and remedy, for all else. A backward without dq_sum is
/// deterministic. Plans and the workspace are made once per shape, by prepare() or by the first
/// launch, and kept; no later launch of that shape allocates. It serves one stream at a time, since
/// there is one workspace. A backward needs 2 * rows * length^2 * heads bytes of it (length rounded
/// up to 128) if it has no dq_sum, and 4 * tokens * heads * head_dim if there are fewer kv heads
/// than heads; else next to nothing is needed.
class CudnnAttention {
 public:
  /// Returns false if the program was built without cuDNN.
  [[nodiscard]] static bool available();

  /// Makes it for the current device. Throws ConfigError, naming the key and the remedy, if cuDNN
  /// is not available or too old.
  CudnnAttention();
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  /// Makes the plan of an operator; only shapes, strides and the scale are looked at, and
  /// whether dq_sum has data. Compiles, so it takes seconds, and waits for the device if the
  /// workspace grows. Throws BackendError if cuDNN cannot run the operator, OutOfMemory if its
  /// workspace is too large.
  void prepare(const AttentionForward& op);
  void prepare(const AttentionBackward& op);
  /// Returns the bytes of device memory held: the most that any prepared operator needs.
  [[nodiscard]] std::size_t workspace_bytes() const;

  /// Launch on `stream` and never block once the shape is prepared. They leave out the rotation;
  /// rows must begin at multiples of 16 bytes.
  void forward(cudaStream_t stream, const AttentionForward& op);
  void backward(cudaStream_t stream, const AttentionBackward& op);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::cuda
