// The temporaries of a model, listed once: Llama takes them from its arena, a memory plan counts
// them, and kernels are prepared for their shapes. All units and cells share them, because their
// operators run on one lane, one after the other.

#pragma once

#include <functional>
#include <string_view>

#include "strata/base/tensor.h"
#include "strata/model/llama.h"

namespace strata {

/// Views of every temporary. Names without "d_" live through forward and are used again by the
/// backward of the same cell; layer_backward says what is reused in place. A tensor that every cell
/// keeps is absent here.
struct LlamaScratch {
  TensorView n1;             ///< [N, C] X, the layer's input, normalised
  TensorView qkv;            ///< [N, (H + 2 K) * D] X, q and k rotated
  TensorView o;              ///< [N, H * D] X, what attention returns
  TensorView x_mid;          ///< [N, C] X, the residual stream between attention and MLP
  TensorView n2;             ///< [N, C] X, x_mid normalised
  TensorView gate_up;        ///< [N, 2 F] X
  TensorView act;            ///< [N, F] X, what SwiGLU makes of gate_up
  TensorView d_mid;          ///< [N, C] X
  TensorView d_o;            ///< [N, H * D] X
  TensorView d_qkv;          ///< [N, (H + 2 K) * D] X
  TensorView rstd1, rstd2;   ///< [N] A, of the two norms
  TensorView lse;            ///< [H, N] A
  TensorView delta;          ///< [H, N] A
  TensorView dq_sum;         ///< [N, H, D] A; absent unless LlamaSizes::add_dq
  TensorView norm_partials;  ///< [RmsNormBackward::kWorkspaceRows, C] A
  TensorView head_n;         ///< [head_chunk, C] X
  TensorView head_dn;        ///< [head_chunk, C] X
  TensorView head_logits;    ///< [head_chunk, logits_stride] X
  TensorView head_rstd;      ///< [head_chunk] A
  TensorView head_lse;       ///< [head_chunk] A
  TensorView cos, sin;       ///< [T, D / 2] A, the RoPE tables
};

/// Makes one temporary of this name for the ledger.
using MakeTensor = std::function<TensorView(std::string_view name, DType dtype, Shape shape)>;

/// Returns the temporaries of a model, each as `make` made it. Calls `make` once for each that is
/// not absent, in a fixed order.
[[nodiscard]] LlamaScratch make_scratch(const ModelSpec& spec, const LlamaSizes& sizes,
                                        const MakeTensor& make);

}  // namespace strata
