// The attention operators: softmax(q k^T) v over segments of queries and keys, and its gradients.
// The model runs them once a layer and sub-batch; Kernels::run checks them, and each backend picks
// a kernel. Views belong to the caller and are used until the submission has run. Letters of shapes
// are those of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"
#include "strata/ops/kv_cache.h"
#include "strata/ops/rope.h"

namespace strata {

/// Which queries see which keys. Each segment is a run of queries and a run of keys that belong
/// together (a row, a document in a packed row, a range of a row with its past): query i of the
/// segment sees keys 0 .. min(i + q_offset, k_length - 1). Every query is in exactly one segment.
/// So packed documents, rows cut into ranges and a KV cache are the same operator.
struct AttentionSegments {
  /// [M, 5] i32: q_begin, k_begin, q_length, k_length, q_offset. Unused entries come last and have
  /// q_length 0.
  ConstTensorView table;
  /// A value above 0 promises that segment i is exactly row i: both begins are i * uniform_length,
  /// both lengths uniform_length, the offset 0. Backends may then ignore the table.
  std::int64_t uniform_length = 0;
  /// Promises that segments follow each other from the first row to the last, and that each attends
  /// to itself: q_begin = k_begin, both lengths equal, offset 0. Documents in packed rows are like
  /// that.
  bool self_attention = false;
  /// How many pairs of a query and a key there are that it sees without a window, for whoever asks
  /// what it costs; 0: as many as there can be.
  std::int64_t pairs = 0;
};

/// Returns the length of causal rows that have as many pairs as rows of `length` with a window:
/// twice the pairs of a row over its length, but for the diagonal.
[[nodiscard]] std::int64_t windowed_length(std::int64_t length, std::int64_t window);

/// o = softmax(scale * q k^T, masked by segments) v per head; head h reads kv head h / (H / K).
/// Scores and sums are computed in A; lse = log(sum(exp(scores))) is natural, with the scale
/// applied.
///
/// With a `window` query i of a segment sees of its keys only those above i + q_offset - window:
/// itself and window - 1 before it. With a `score_cap` a score s becomes cap * tanh(s / cap),
/// with the scale applied, before it is masked.
struct AttentionForward {
  static constexpr std::string_view kName = "attention_forward";
  /// How many keys a part of `parts` stands for.
  static constexpr std::int64_t kPartKeys = 256;
  /// A segment has the same bits without its first keys, if no query sees them through the window
  /// and they are a multiple of so many.
  static constexpr std::int64_t kTileKeys = 96;
  ConstTensorView q;  ///< [Nq, H, D] X; rows may be strided
  ConstTensorView k;  ///< [Nk, K, D] X; rows may be strided
  ConstTensorView v;  ///< [Nk, K, D] X; rows may be strided
  AttentionSegments segments;
  TensorView o;    ///< [Nq, H, D] X
  TensorView lse;  ///< [H, Nq] A, kept for backward
  /// [Nq, P, H * (D + 2)] A, scratch, or absent. It promises that segment i is query i alone and
  /// sees at most P * kPartKeys keys. Backends may then compute parts of its keys side by side.
  TensorView parts = {};
  double scale = 1.0;       ///< usually 1/sqrt(D)
  std::int64_t window = 0;  ///< 0: none
  double score_cap = 0;     ///< 0: none
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// AttentionForward over int8 keys and values, of single queries: segment i is query i alone, and
/// sees the first min(k_length, q_offset + 1) keys from k_begin on, those of its window. With s_j =
/// (q k_j) k_scale_j scale and p_j = exp(s_j - max s), where k and v are levels, o = sum_j (p_j
/// v_scale_j) v_j / sum_j p_j: in A, rounded once. There is no backward, and so no lse.
struct AttendInt8Kv {
  static constexpr std::string_view kName = "attend_int8_kv";
  ConstTensorView q;         ///< [N, H, D] X; rows may be strided
  ConstInt8Kv cache;         ///< K heads, which divide H
  ConstTensorView segments;  ///< [N, 5] i32, see AttentionSegments
  TensorView o;              ///< [N, H, D] X
  /// [N, P, H * (D + 2)] A, scratch, or absent: see AttentionForward.
  TensorView parts = {};
  double scale = 1.0;       ///< usually 1/sqrt(D)
  std::int64_t window = 0;  ///< see AttentionForward
  double score_cap = 0;     ///< see AttentionForward
  /// How many keys the queries see, all together, for whoever asks what it costs; 0: as many as
  /// there can be.
  std::int64_t pairs = 0;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// Gradients of AttentionForward. With P = exp(scale * q k^T - lse) and delta = rowsum(d_o * o):
/// dv = P^T d_o, dS = P * (d_o v^T - delta), dq = scale * dS k, dk = scale * dS^T q; dk and dv sum
/// over the H/K query heads of a kv head. With a score_cap and s = scale * q k^T, P = exp(cap *
/// tanh(s / cap) - lse), and dS has the factor 1 - tanh(s / cap)^2. Deterministic, unless `dq_sum`
/// is given and the backend has a faster way that adds to it in no fixed order. dq, dk, dv are
/// overwritten, completely.
///
/// With `rotation`, q and k are what Rope has made of other tensors, and dq and dk are the
/// gradients of those: turned back by the angles of their rows in A, then rounded. Backends that
/// have no such kernel round, and turn what they rounded.
struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  ConstTensorView d_o;         ///< [Nq, H, D] X
  ConstTensorView q, k, v, o;  ///< as in forward
  ConstTensorView lse;         ///< [H, Nq] A
  AttentionSegments segments;
  TensorView dq;             ///< [Nq, H, D] X; rows may be strided
  TensorView dk;             ///< [Nk, K, D] X; rows may be strided
  TensorView dv;             ///< [Nk, K, D] X; rows may be strided
  TensorView delta;          ///< [H, Nq] A, scratch
  TensorView dq_sum = {};    ///< [Nq, H, D] A, scratch, or absent
  RopeAngles rotation = {};  ///< for q and k alike (Nq = Nk); or all three absent
  double scale = 1.0;
  std::int64_t window = 0;  ///< as in forward
  double score_cap = 0;     ///< as in forward
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
