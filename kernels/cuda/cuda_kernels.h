// This file declares the operators on one CUDA device as a Kernels object. make_cuda_backend makes
// it, for the device that is current, and the schedule runs it through Kernels. It owns what
// launches share: workspaces, plans of products and the counter of tiles.

#pragma once

#include <memory>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/cudnn/cudnn_attention.h"
#include "kernels/cuda/products/matmul.h"
#include "src/device/cuda/driver.h"
#include "strata/ops/backend.h"
#include "strata/ops/kernels.h"

namespace strata {

/// Runs bf16 and f32. Operators may go to any lane but kHost, matmul and attention to kCompute
/// only, as each has one workspace. Constructing it loads every kernel, so that no launch allocates
/// device memory; cuDNN's attention is made ready by prepare(). Throws BackendError, naming the
/// operator, for what no kernel runs, and OutOfMemory if there is no room for a workspace.
class CudaKernels final : public Kernels {
 public:
  CudaKernels(const cuda::Driver& driver, const BackendOptions& options);
  void prepare(const AttentionForward& op) override;
  void prepare(const AttentionBackward& op) override;
  void prepare(const Matmul& op) override;
  [[nodiscard]] MatmulTuner* matmul_tuner() override { return &matmul_; }

 private:
  template <Op O>
  void enqueue(Stream& stream, const O& op);

#define STRATA_LAUNCH(Operator) void launch(Stream& stream, const Operator& op) override;
  STRATA_FOR_EACH_OPERATOR(STRATA_LAUNCH)
#undef STRATA_LAUNCH

  std::unique_ptr<DeviceMemory> tile_counter_;  ///< holds a cuda::TileCounter
  cuda::AttentionBackend attention_;
  cuda::MatmulPlans matmul_;
  std::unique_ptr<cuda::CudnnAttention> cudnn_;  ///< null unless chosen
};

}  // namespace strata
