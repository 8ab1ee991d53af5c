// The memory of a model in training beside weights and activations: temporaries, which all units
// and cells share because their operators run on one lane, one after the other, and the tables of
// the rotary embedding. Both are listed once: a run gives the constructors arenas, a plan a list
// that only counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/device/allocator.h"
#include "strata/model/fp8_scratch.h"
#include "strata/model/kept_activations.h"
#include "strata/model/spec.h"
#include "strata/ops/preference_formula.h"

namespace strata {

/// The sizes and dtype of a run, fixed before the first step.
struct LlamaSizes {
  DType compute = DType::kF32;                 ///< X, the dtype of weights and activations
  std::int64_t row_tokens = 0;                 ///< T
  std::int64_t cell_tokens = 0;                ///< N = B * T
  std::int64_t head_chunk = 0;                 ///< tokens whose logits exist at once, 1 to N
  bool add_dq = false;                         ///< attention's backward gets a dq_sum
  std::optional<PreferenceRule> preference{};  ///< of pairs of answers; absent: every token counts
  /// Every cell keeps at least this much, so that these tensors need no scratch.
  KeepLevel kept_by_all = KeepLevel::kRecompute;
};

/// The temporaries of adapters of linears, which each linear uses anew; absent without adapters. A
/// linear has R columns of the first two.
struct AdapterScratch {
  TensorView h{};   ///< [N, largest R] X, x A^T
  TensorView dh{};  ///< [N, largest R] X, its gradient; absent where nothing is trained
  TensorView x{};   ///< [N, widest in] X, what dropout leaves of x; absent without dropout
  TensorView y{};   ///< [N, most rows of a source] X, B h; absent where its product adds it
};

/// Every temporary, on the device. Names without "d_" live through forward and are used again by
/// the backward of the same cell; layer_backward says what is reused in place. A tensor that every
/// cell keeps is absent here.
struct LlamaScratch {
  /// Takes them in this order.
  LlamaScratch(const ModelSpec& spec, const LlamaSizes& sizes, Allocator& memory);

  TensorView n1;     ///< [N, C] X, the layer's input, normalised; absent without such a norm
  TensorView qkv;    ///< [N, (H + 2 K) * D] X; q and k rotated, or as `qk` reads them
  TensorView qk;     ///< [N, (H + K) * D] X, normalised and rotated; absent without such norms
  TensorView o;      ///< [N, H * D] X, what attention returns
  TensorView x_mid;  ///< [N, C] X, the residual stream between attention and MLP, or what `mid` is
                     ///< made of
  TensorView mid;    ///< [N, C] X, that stream where a norm reads x_mid; else absent
  TensorView n2;     ///< [N, C] X, the stream normalised
  TensorView gate_up;       ///< [N, 2 F] X
  TensorView act;           ///< [N, F] X, what SwiGLU makes of gate_up
  TensorView down;          ///< [N, C] X, what a norm of the MLP's output reads; absent without one
  TensorView d_mid;         ///< [N, C] X
  TensorView d_o;           ///< [N, H * D] X
  TensorView d_qkv;         ///< [N, (H + 2 K) * D] X
  TensorView rstd1, rstd2;  ///< [N] A, of the norms before attention and MLP
  TensorView out_rstd1, out_rstd2;  ///< [N] A, of the norms after them, or absent
  TensorView lse;                   ///< [H, N] A
  TensorView delta;                 ///< [H, N] A
  TensorView dq_sum;                ///< [N, H, D] A; absent unless LlamaSizes::add_dq
  TensorView query_rstd;     ///< [N, H] A, or [N] if q is normalised as a whole; absent as `qk` is
  TensorView key_rstd;       ///< [N, K] A, or [N]
  TensorView head_partials;  ///< [HeadNormBackward::kWorkspaceRows, width of q's norm] A
  TensorView norm_partials;  ///< [RmsNormBackward::kWorkspaceRows, C] A
  TensorView bias_partials;  ///< [BiasBackward::kWorkspaceRows, widest bias] A; absent without any
  AdapterScratch adapters;
  TensorView head_n;            ///< [head_chunk, C] X
  TensorView head_dn;           ///< [head_chunk, C] X
  TensorView head_logits;       ///< [head_chunk, logits_stride] X
  TensorView head_d_logits;     ///< as head_logits, where logits are capped; else absent
  TensorView head_rstd;         ///< [head_chunk] A
  TensorView head_lse;          ///< [head_chunk] A
  TensorView head_token_loss;   ///< [N] A; absent without a preference
  TensorView head_token_scale;  ///< [N] A, likewise
  Fp8Scratch fp8;               ///< comes last
};

/// The tables of one rotary embedding on the device, and pinned memory through which they go there.
struct RopeMemory {
  /// Takes tables for so many positions, P, under names that begin with `name`.
  RopeMemory(const RopeSpec& rope, const std::string& name, std::int64_t positions, DType dtype,
             Allocator& memory);

  RopeSpec rope;
  TensorView cos, sin;           ///< [P, E / 2] of `dtype`
  std::byte* staging = nullptr;  ///< as large as one of them
};

/// The tables of all rotary embeddings of a model: kinds of layers may differ in theirs.
class RopeTables {
 public:
  /// Takes tables for so many positions, those of the first kind of layers first.
  RopeTables(const ModelSpec& spec, std::int64_t positions, DType dtype, Allocator& memory);

  /// Returns those of layers that rotate in this way.
  [[nodiscard]] const RopeMemory& of(const RopeSpec& rope) const;
  [[nodiscard]] const std::vector<RopeMemory>& all() const { return tables_; }

 private:
  std::vector<RopeMemory> tables_;
};

}  // namespace strata
