// This file declares matrix products on CUDA as CudaKernels has them: it launches every Matmul
// here, and a run tunes its products through the MatmulTuner that this is. The plans belong to the
// run (strata/ops/matmul_plan.h); a product without one runs with cuBLASLt's first proposal that it
// does not refuse.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/products/invariant_products.h"
#include "kernels/cuda/products/matmul_problem.h"
#include "strata/device/device.h"

namespace strata::cuda {

/// Runs products of bf16 and f32 through cuBLASLt. Descriptors and the algorithm are looked up once
/// per key and kept. Products that cuBLASLt has no algorithm for run on a plain kernel. Only
/// algorithms that give the same bits in every run are used. It serves one stream at a time, since
/// there is one workspace. Plans are for operands of full alignment, which those of a run have.
class MatmulPlans final : public MatmulTuner {
 public:
  /// Takes `workspace_bytes` of device memory until it is destroyed. Throws OutOfMemory if they are
  /// not there.
  explicit MatmulPlans(std::size_t workspace_bytes);

  /// Launches the product on `stream` and never blocks. Throws BackendError, naming the operator,
  /// for dtypes that the backend does not run.
  void launch(cudaStream_t stream, const Matmul& op);
  /// Finds algorithms for a batch-invariant product of up to op.m() rows; nothing for others. It
  /// blocks, nothing else may run on the device, and it takes device memory meanwhile.
  void prepare(const Matmul& op);

  [[nodiscard]] std::string platform() const override;
  [[nodiscard]] std::vector<MatmulPlan> tune(std::span<const MatmulShape> shapes,
                                             std::size_t memory_bytes) override;
  void use(const MatmulPlan& plan) override;
  [[nodiscard]] std::vector<MatmulComparison> compare(std::span<const MatmulShape> shapes,
                                                      std::size_t memory_bytes) override;

 private:
  struct Plan {
    MatmulProblem problem;
    /// Those that may run, best first; if there is none, the plain kernel does.
    std::vector<cublasLtMatmulAlgo_t> algorithms;
  };
  [[nodiscard]] MatmulPlace place(cudaStream_t stream) const;
  [[nodiscard]] Plan& plan_for(const MatmulKey& key);

  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::size_t workspace_bytes_;
  std::map<MatmulKey, Plan> plans_;
  InvariantProducts invariant_;
};

}  // namespace strata::cuda
