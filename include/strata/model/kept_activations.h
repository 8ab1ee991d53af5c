// What forward can keep of a cell so that backward need not compute it again: the levels, and the
// tensors of each. A plan chooses a level per cell, the kept store owns the memory, and the model
// fills the views and uses them up. X and A are the dtypes, N to F the letters of
// strata/ops/embedding.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "strata/base/tensor.h"

namespace strata {

/// How much of a cell (a layer and a sub-batch) forward keeps for backward beside the layer's
/// input. Every level keeps what the one before it keeps, and more: the tensors that save backward
/// one operator, whatever else is kept. Levels are in order of worth per byte, see
/// docs/schedule.md.
enum class KeepLevel : std::uint8_t {
  kRecompute,     ///< nothing: backward runs the layer again
  kAttention,     ///< o and its log-sum-exp: saves attention
  kAttentionOut,  ///< and x_mid: saves the product after attention
  kSelective,     ///< and q, k, v: saves the product before attention
  kFull,          ///< and [gate | up]: saves their product; only two norms run again
};
inline constexpr KeepLevel kKeepLevels[] = {KeepLevel::kRecompute, KeepLevel::kAttention,
                                            KeepLevel::kAttentionOut, KeepLevel::kSelective,
                                            KeepLevel::kFull};

/// The tensors that a cell keeps, contiguous and on the device; absent where it does not keep them.
/// The memory belongs to the store, and backward overwrites the contents.
struct KeptActivations {
  TensorView o;        ///< [N, H * D] X, what attention returns
  TensorView lse;      ///< [H, N] A, the log-sum-exp of its scores
  TensorView x_mid;    ///< [N, C] X, the residual stream between attention and MLP
  TensorView qkv;      ///< [N, (H + 2 K) * D] X, q and k rotated
  TensorView gate_up;  ///< [N, 2 F] X
};

/// One kept tensor as a plan sees it: where it belongs, its size, and what it saves.
struct KeptTensor {
  KeepLevel from = KeepLevel::kRecompute;  ///< the first level that keeps it
  std::string_view name;
  TensorView KeptActivations::*view = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  double flops_per_token = 0;  ///< FLOPs that keeping it saves; causal attention counted once

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
};

}  // namespace strata
