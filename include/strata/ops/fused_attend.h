// What generation does between the two projections of attention, for tokens past their prompts, as
// one operator. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include "strata/ops/attention.h"
#include "strata/ops/fused_append.h"

namespace strata {

/// FusedAppend, and then AttentionForward of the queries that were turned over the cache that was
/// added to, with their bits. Backends may do all at once: added.rope.x is scratch, and unspecified
/// afterwards.
///
/// The key that token n adds is the last one that it sees. No token sees what another one adds, and
/// what it sees besides is read ahead: no operator that was submitted to the lane since the last
/// EmbeddingForward, copy or wait there writes it, nor the segments, positions and angles.
struct FusedAttend {
  static constexpr std::string_view kName = "fused_attend";
  FusedAppend added;
  ConstTensorView segments;  ///< [N, 5] i32, see AttentionSegments: one for each token
  std::int64_t pairs = 0;    ///< as in AttentionSegments
  TensorView o;              ///< [N, H, D] X
  TensorView lse;            ///< [H, N] A
  TensorView parts = {};     ///< as in AttentionForward
  double scale = 1.0;        ///< usually 1/sqrt(D)
  std::int64_t window = 0;   ///< see AttentionForward
  double score_cap = 0;      ///< see AttentionForward

  [[nodiscard]] AttentionForward attention() const;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// Calls `run(part)` for each part, in order.
template <class Run>
void for_each_part(const FusedAttend& op, const Run& run) {
  run(op.added);
  run(op.attention());
}

}  // namespace strata
