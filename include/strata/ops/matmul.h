// The matrix product, in the three layouts of a linear layer: forward, input gradient and weight
// gradient. The model runs all its products as this operator; cuBLASLt or the CPU's own kernels
// compute them. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// How the row-major operands are read. "T" means transposed on reading.
enum class MatmulLayout : std::uint8_t {
  kNT,  ///< a [M, K], b [N, K]: y = x W^T, the forward of a linear layer
  kNN,  ///< a [M, K], b [K, N]: dx = dy W
  kTN,  ///< a [K, M], b [K, N]: dW = dy^T x
};

/// What happens to what `out` held before.
enum class MatmulUpdate : std::uint8_t {
  kOverwrite,   ///< out = product
  kAccumulate,  ///< out = out + product
};

/// out[m, n] (+)= alpha * sum over k of a(m, k) * b(k, n), accumulated in A and rounded once to the
/// dtype of out. The cpu backend sums in ascending k, and a kTN product that accumulates continues
/// the sum in `out`, so splitting K over several calls does not change the result there unless each
/// call rounds `out` to X. An alpha other than 1 multiplies a(m, k) there, in A, and the sum on
/// CUDA. There a product may be rounded to X before a bias[n] or an `out` of X is added. The cpu
/// backend adds both in A, before anything is rounded.
///
/// Operands may also be codes in e4m3 with the scales of their rows (strata/ops/fp8.h): a(m, k) is
/// then code times a_scale[m], b(k, n) code times b_scale[n], and A f64 if `out` is, else f32. On
/// CUDA such a product needs compute capability 9.0, and N and K that are multiples of 16.
struct Matmul {
  static constexpr std::string_view kName = "matmul";
  ConstTensorView a;  ///< X or e4m3, rank 2; rows may be strided
  ConstTensorView b;  ///< as a, rank 2; rows may be strided
  TensorView out;     ///< [M, N] X or A; rows may be strided; A if kAccumulate of codes
  MatmulLayout layout = MatmulLayout::kNT;
  MatmulUpdate update = MatmulUpdate::kOverwrite;
  /// Asks that a row of `out` has the same bits whatever other rows there are, and however many: a
  /// sequence that is generated must not depend on its batch. For kNT that overwrites.
  bool batch_invariant = false;
  double alpha = 1;              ///< not 0
  ConstTensorView bias = {};     ///< [N] X, or absent; for kNT that overwrites an `out` of X
  ConstTensorView a_scale = {};  ///< [M] f32; present exactly for e4m3, which is for kNT alone
  ConstTensorView b_scale = {};  ///< [N] f32; likewise
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
  [[nodiscard]] std::int64_t m() const { return out.shape[0]; }
  [[nodiscard]] std::int64_t n() const { return out.shape[1]; }
  [[nodiscard]] std::int64_t k() const {
    return layout == MatmulLayout::kTN ? a.shape[0] : a.shape[1];
  }
};

}  // namespace strata
