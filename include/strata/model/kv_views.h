// Keys and values that are kept, and the two things that are done with them wherever they are, on
// the device or on the host: those of new tokens are added, and single tokens attend to them. Which
// operators do it follows from the dtype in which they are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strata/model/kv_window.h"
#include "strata/ops/kernels.h"

namespace strata {

/// The keys and values of one layer for the sequences of a group. A sequence has consecutive rows,
/// one for each position that is kept.
struct KvViews {
  TensorView k;             ///< [R, K, D] X, or i8; k rotated; rows may be strided
  TensorView v;             ///< [R, K, D] X, or i8; rows may be strided
  TensorView k_scale = {};  ///< [R, K] f32, see Int8Kv; absent if k is X
  TensorView v_scale = {};  ///< [R, K] f32, see Int8Kv; absent if v is X

  [[nodiscard]] bool is_int8() const { return k.dtype == DType::kI8; }
  [[nodiscard]] Int8Kv int8() const { return {k, v, k_scale, v_scale}; }
};

/// Keys and values of new tokens.
struct NewKv {
  ConstTensorView k;     ///< [N, K, D] X; rows may be strided
  ConstTensorView v;     ///< [N, K, D] X; rows may be strided
  ConstTensorView rows;  ///< [N] i32: where they go
};

/// Tokens past their prompts, of a sequence each.
struct SingleTokens {
  ConstTensorView q;         ///< [N, H, D] X; rows may be strided
  ConstTensorView segments;  ///< [N, 5] i32, see AttentionSegments: one for each
  std::int64_t pairs = 0;    ///< keys that they see, all together; 0: not counted
  double scale = 0;          ///< of scores
  std::int64_t window = 0;   ///< see AttentionForward
  double score_cap = 0;      ///< see AttentionForward
  TensorView o;              ///< [N, H, D] X
  TensorView lse;            ///< [H, N] A, scratch
  TensorView parts = {};     ///< see AttentionForward, or absent
};

/// Submits copies that move rows, where all that `kept` has of a row lies between the begin of its
/// key and that of the next row's: as KvStore lays them.
void move_kv(Stream& stream, const KvViews& kept, const std::vector<KvMove>& moves, const Tag& tag);
/// Submits what adds keys and values to those that are kept. Throws as Kernels::run does.
void append_kv(Kernels& kernels, Stream& stream, const KvViews& kept, const NewKv& added,
               const Tag& tag);
/// Submits what turns queries and keys first, if they are, of which `added.k` are the last heads.
/// Throws as Kernels::run does.
void turn_and_append_kv(Kernels& kernels, Stream& stream, const KvViews& kept,
                        const std::optional<Rope>& turn, const NewKv& added, const Tag& tag);
/// Submits attention of single tokens to what is kept. Throws as Kernels::run does.
void attend_to_kv(Kernels& kernels, Stream& stream, const KvViews& kept, const SingleTokens& tokens,
                  const Tag& tag);
/// Submits both, for tokens that are all single: `turn` and `added` are of the same tokens, see
/// FusedAttend. What was turned may then be unspecified. Throws as Kernels::run does.
void turn_append_and_attend_to_kv(Kernels& kernels, Stream& stream, const KvViews& kept,
                                  const std::optional<Rope>& turn, const NewKv& added,
                                  const SingleTokens& tokens, const Tag& tag);

}  // namespace strata
