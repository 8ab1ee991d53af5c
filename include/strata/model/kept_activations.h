// What a cell (one layer on one sub-batch) keeps of its forward for its backward. Plans choose a
// KeepLevel for each cell, KeptStore holds the tensors, and Llama writes and reads them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "strata/base/tensor.h"

namespace strata {

/// How much of a cell forward keeps for backward beside the layer's input. Every level keeps what
/// the one before it keeps and adds to it; each tensor saves backward the operator that makes it,
/// whatever else is kept. Levels are in the order of what a byte is worth, see docs/schedule.md.
enum class KeepLevel : std::uint8_t {
  kRecompute,     ///< nothing: backward runs the layer again
  kAttention,     ///< o and its log-sum-exp: saves attention
  kAttentionOut,  ///< and x_mid, and down if a norm reads it: saves the products that give them
  kSelective,     ///< and q, k, v: saves the product before attention
  kFull,          ///< and [gate | up]: saves their product; two norms run again and no more
};
inline constexpr KeepLevel kKeepLevels[] = {KeepLevel::kRecompute, KeepLevel::kAttention,
                                            KeepLevel::kAttentionOut, KeepLevel::kSelective,
                                            KeepLevel::kFull};

/// The tensors that a cell keeps, contiguous and on the device; those that it does not keep are
/// absent. Backward may overwrite them.
struct KeptActivations {
  TensorView o;      ///< [N, H * D] X, what attention returns
  TensorView lse;    ///< [H, N] A, its log-sum-exp
  TensorView x_mid;  ///< [N, C] X, the residual stream between attention and MLP, or what a norm
                     ///< of what is added to it there reads
  TensorView qkv;  ///< [N, (H + 2 K) * D] X; q and k rotated, or as norms of their heads read them
  TensorView gate_up;  ///< [N, 2 F] X
  TensorView down{};   ///< [N, C] X, what the norm of what the MLP adds reads
};

/// One of these tensors as plans and KeptStore see it: how large it is and what it saves.
struct KeptTensor {
  KeepLevel from = KeepLevel::kRecompute;  ///< the first level that keeps it
  std::string_view name;
  TensorView KeptActivations::*view = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  double flops_per_token = 0;  ///< what keeping it saves; causal attention counted once

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
};

}  // namespace strata
