#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "strata/ops/matmul.h"

namespace strata::cuda {

/// Everything that the choice of an algorithm depends on.
struct MatmulKey {
  std::int64_t m, n, k;
  std::int64_t stride_a, stride_b, stride_out;
  MatmulLayout layout;
  MatmulUpdate update;
  DType in, out;
  std::uint32_t alignment_a, alignment_b, alignment_out;  ///< bytes, a power of two
  auto operator<=>(const MatmulKey&) const = default;
};

/// Matrix products through cuBLASLt. Descriptors and the algorithm are looked up once per key and
/// kept. Products that cuBLASLt has no algorithm for run on a plain kernel. Only algorithms that
/// give the same bits in every run are used. One stream at a time: there is one workspace.
class MatmulPlans {
 public:
  explicit MatmulPlans(std::size_t workspace_bytes);
  ~MatmulPlans();
  MatmulPlans(const MatmulPlans&) = delete;
  MatmulPlans& operator=(const MatmulPlans&) = delete;

  void launch(cudaStream_t stream, const Matmul& op);

 private:
  struct Plan;
  [[nodiscard]] const Plan& plan_for(const Matmul& op);
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const MatmulKey& key) const;

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_;
  std::map<MatmulKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace strata::cuda
