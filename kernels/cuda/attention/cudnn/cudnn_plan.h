// This file wraps the part of cuDNN's backend API that attention needs, for cudnn_attention.cpp: a
// graph of operations on tensors of four dimensions, and the plan that runs it as one fused kernel
// (with its helpers). Descriptors own their memory; plans outlive the graph that they were made
// from.

#pragma once

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/device/cuda/check.h"

namespace strata::cuda {

/// Throws BackendError that names the call unless `code` is success; STRATA_CUDA_CHECK calls it.
void check(cudnnStatus_t code, const CallSite& site);

/// A descriptor of the backend API: attributes are set, then it is finalized and read.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return raw_.get(); }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  /// Sets one value, whose C++ type tells the attribute type.
  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value);
  void finalize();
  /// Returns false if cuDNN does not support what is described; throws for any other failure.
  [[nodiscard]] bool try_finalize();

 private:
  struct Destroy {
    void operator()(void* raw) const;
  };
  std::unique_ptr<void, Destroy> raw_;
};

/// A finalized execution plan. Runs on any stream of the device it was made for.
class CudnnPlan {
 public:
  using Scalar = std::pair<std::int64_t, float>;  ///< uid, value
  using Binding = std::pair<std::int64_t, const void*>;

  CudnnPlan(CudnnDescriptor plan, std::vector<Scalar> scalars);

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Launches on the handle's stream. `tensors` binds every uid of the graph's device tensors.
  void execute(cudnnHandle_t handle, std::span<const Binding> tensors, void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::vector<Scalar> scalars_;
  std::size_t workspace_bytes_ = 0;
};

/// Builds a graph, operation by operation, then a plan of it. All arithmetic is in f32.
class CudnnGraph {
 public:
  using Sizes = std::array<std::int64_t, 4>;
  /// A tensor of this graph; valid as long as the graph.
  struct Tensor {
    Sizes shape;
    Sizes strides;  ///< in elements
    cudnnDataType_t type;
    cudnnBackendDescriptor_t descriptor;
  };

  /// Returns the strides of a contiguous tensor of this shape.
  [[nodiscard]] static Sizes contiguous(const Sizes& shape);

  /// Adds a tensor in device memory that is bound to `uid` (below kFirstOwnUid) when the plan runs.
  /// It begins at a multiple of 16 bytes.
  [[nodiscard]] Tensor bound(std::int64_t uid, const Sizes& shape, const Sizes& strides,
                             cudnnDataType_t type);
  /// Adds a constant of the plan.
  [[nodiscard]] Tensor scalar(float value);

  // The functions below add operations. Those that are given no output make a contiguous f32 tensor
  // that exists only inside of the plan's kernels; temporary() makes one of another type.

  [[nodiscard]] Tensor temporary(const Sizes& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// Multiplies a [B, H, M, K] by b [B, H or a divisor, K, N].
  Tensor matmul(const Tensor& a, const Tensor& b, std::optional<Tensor> out = {});
  /// Computes y = f(x) or f(x, b); b may have dimensions of size 1.
  Tensor pointwise(cudnnPointwiseMode_t mode, const Tensor& x, std::optional<Tensor> b = {},
                   std::optional<Tensor> out = {});
  /// Returns x where row >= column in the last two dimensions, and -infinity elsewhere.
  [[nodiscard]] Tensor causal(const Tensor& x);
  /// Reduces over the dimensions that `out` has size 1 (or a divisor) in, or over the last one if
  /// it is absent.
  Tensor reduce(cudnnReduceTensorOp_t reduction, const Tensor& x, std::optional<Tensor> out = {});
  /// Exchanges the last two dimensions; no data moves.
  [[nodiscard]] Tensor transpose(const Tensor& x, cudnnDataType_t type);

  /// Makes a plan of the graph for `device`. Throws BackendError, which begins with `who`, if cuDNN
  /// has no engine for it.
  [[nodiscard]] CudnnPlan plan(const CudnnDescriptor& device, const std::string& who);

 private:
  static constexpr std::int64_t kFirstOwnUid = 100;
  struct Place {
    std::int64_t uid;
    bool in_memory;
    bool by_value;
  };
  Tensor add_tensor(const Place& place, const Sizes& shape, const Sizes& strides,
                    cudnnDataType_t type);
  Tensor add_pointwise(CudnnDescriptor function, const Tensor& x, const Tensor* b,
                       const Tensor* select, const Tensor& y);

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> operations_;
  std::vector<CudnnDescriptor> functions_;
  std::vector<CudnnPlan::Scalar> scalars_;
  std::int64_t next_uid_ = kFirstOwnUid;
};

/// Returns the current device, as plans are made for it.
[[nodiscard]] CudnnDescriptor cudnn_device();

}  // namespace strata::cuda
