// This file declares one kind of matrix product as cuBLASLt sees it: MatmulPlans launches products
// through it and MatmulTimer measures their algorithms. It owns cuBLASLt's descriptors and no
// device memory. Calls of cuBLASLt are checked, but for those whose caller decides what a failure
// means.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/cuda/check.h"
#include "strata/ops/matmul_plan.h"

namespace strata::cuda {

/// Throws BackendError that names the call unless `code` is success; STRATA_CUDA_CHECK calls it.
void check(cublasStatus_t code, const CallSite& site);

/// Everything that the choice of an algorithm depends on.
struct MatmulKey {
  /// In bytes. No algorithm asks for more, and all that arenas hand out has it.
  static constexpr std::uint32_t kFullAlignment = 16;

  MatmulShape shape;
  std::uint32_t alignment_a = kFullAlignment;  ///< bytes: a power of two, up to kFullAlignment
  std::uint32_t alignment_b = kFullAlignment;
  std::uint32_t alignment_out = kFullAlignment;
  std::uint32_t alignment_bias = kFullAlignment;
  auto operator<=>(const MatmulKey&) const = default;
};

/// Returns the key of an operator, from its shape and the addresses of its views.
[[nodiscard]] MatmulKey key_of(const Matmul& op);

/// The operands of one product, row-major, in device memory.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  float alpha = 1;
  const void* bias = nullptr;      ///< looked at only if the shape has one
  const float* a_scale = nullptr;  ///< of rows of codes in e4m3, and of no others
  const float* b_scale = nullptr;
};

/// Where products are launched: one stream at a time uses a workspace.
struct MatmulPlace {
  cublasLtHandle_t handle = nullptr;
  std::span<std::byte> workspace;  ///< device memory
  cudaStream_t stream = nullptr;
};

/// How partial sums may be added. kNone: there are none, K is not split. kFixedOrder gives the same
/// bits in every run: partial sums of a split K are kept in f32 in the workspace and added in a
/// fixed order. kAny also adds those that are kept in the dtype of the output.
enum class Reductions : std::uint8_t { kNone, kFixedOrder, kAny };

template <class Handle, auto destroy>
struct Destroy {
  void operator()(Handle handle) const {
    destroy(handle);  // nothing can be done if it fails
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

using MatmulOperation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

/// One kind of product as cuBLASLt sees it: descriptors, and the algorithms that fit them.
class MatmulProblem {
 public:
  /// Throws BackendError for dtypes that the backend does not run, and for products in e4m3 that
  /// require_fp8 refuses.
  explicit MatmulProblem(const MatmulKey& key);

  /// Returns cuBLASLt's proposals within the workspace, what it expects to be fastest first, `most`
  /// at most. There may be none.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposals(const MatmulPlace& place,
                                                            Reductions reductions, int most) const;
  /// Returns why the algorithm cannot run here or does not repeat its results; an empty text if it
  /// may be used.
  [[nodiscard]] std::string objection(const MatmulPlace& place,
                                      const cublasLtMatmulAlgo_t& algorithm) const;
  /// Launches the product and never blocks. The status is not checked: the caller decides what a
  /// failure means.
  [[nodiscard]] cublasStatus_t launch(const MatmulPlace& place,
                                      const cublasLtMatmulAlgo_t& algorithm,
                                      const MatmulOperands& operands) const;
  /// Launches the product and never blocks. Returns false if cuBLASLt refuses the algorithm, which
  /// happens to some that it has proposed; throws BackendError for all other failures.
  [[nodiscard]] bool try_launch(const MatmulPlace& place, const cublasLtMatmulAlgo_t& algorithm,
                                const MatmulOperands& operands) const;

 private:
  MatmulKey key_;
  MatmulOperation operation_;
  MatrixLayout a_, b_, out_;
};

/// Returns an algorithm as text. cuBLASLt allows to keep the words of one and to use them again
/// with the same version, and with no other.
[[nodiscard]] std::string hex_of(const cublasLtMatmulAlgo_t& algorithm);
/// Returns the algorithm that hex_of gave. Throws BackendError if `hex` is no such text.
[[nodiscard]] cublasLtMatmulAlgo_t algorithm_of(std::string_view hex);

}  // namespace strata::cuda
