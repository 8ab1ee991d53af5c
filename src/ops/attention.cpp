// Checks the tensors of the attention operators, lists the bytes that they touch and estimates what
// they cost. Kernels are in kernels/cpu/attention_*.cpp and, by way of kernels/cuda/attention,
// in several files there.

#include "strata/ops/attention.h"

#include <algorithm>

#include "check.h"
#include "int8_kv.h"
#include "rope_angles.h"

namespace strata {

namespace {

/// Checks what forward and backward have in common.
void check_inputs(const Checker& c, const ConstTensorView& q, const ConstTensorView& k,
                  const ConstTensorView& v, const AttentionSegments& segments) {
  c.rank("q", q, 3);
  c.rank("k", k, 3);
  c.compute_dtype("q", q);
  const std::int64_t heads = q.shape[1];
  const std::int64_t kv_heads = k.shape[1];
  const std::int64_t head_dim = q.shape[2];
  c.matches("k", k, {k.shape[0], kv_heads, head_dim}, q.dtype);
  c.matches("v", v, k.shape, q.dtype);
  c.require(head_dim > 0, "q", "must have a head dim of at least 1");
  if (kv_heads <= 0 || heads % kv_heads != 0) {
    c.fail("k", "has " + std::to_string(kv_heads) + " heads, which do not divide the " +
                    std::to_string(heads) + " heads of q");
  }
  c.require(!segments.self_attention || q.shape[0] == k.shape[0], "segments",
            "promise self-attention, but q and k have different numbers of rows");
  if (segments.uniform_length > 0) {
    const std::int64_t length = segments.uniform_length;
    if (q.shape[0] != k.shape[0] || q.shape[0] % length != 0) {
      c.fail("segments", "promise uniform rows of " + std::to_string(length) +
                             ", which do not divide q and k of " + std::to_string(q.shape[0]) +
                             " and " + std::to_string(k.shape[0]) + " tokens");
    }
  } else {
    c.rank("segments.table", segments.table, 2);
    c.matches_contiguous("segments.table", segments.table, {segments.table.shape[0], 5},
                         DType::kI32);
  }
}

void check_rotation(const Checker& c, const RopeAngles& rotation, const ConstTensorView& q,
                    const ConstTensorView& k) {
  c.require(q.shape[2] % 2 == 0, "q", "must have an even head dim to be turned back");
  c.require(q.shape[0] == k.shape[0], "rotation",
            "has one position for a row of q and of k, but they have different numbers of rows");
  check_angles(c, rotation, q);
}

void check_scores(const Checker& c, std::int64_t window, double score_cap) {
  c.require(window >= 0, "window", "must be 0 for none, or at least 1");
  c.require(score_cap >= 0, "score_cap", "must be 0 for none, or above 0");
}

/// Returns how many of these pairs are left to so many queries by a window. Where some queries see
/// less than it and others more, there are fewer.
std::int64_t windowed_pairs(std::int64_t pairs, std::int64_t queries, std::int64_t window) {
  return window == 0 || window >= pairs ? pairs : std::min(pairs, queries * window);
}

/// Returns the cost of `products` products over the lower triangle. Without uniform rows the
/// lengths are in memory, so the cost is that of the most there can be: one row of everything.
Cost attention_cost(CostKind kind, double products, const ConstTensorView& q,
                    const AttentionSegments& segments, std::int64_t window) {
  const std::int64_t rows = segments.uniform_length > 0 ? segments.uniform_length : q.shape[0];
  const std::int64_t length = windowed_length(rows, window);
  // Each product has 2 FLOPs per element of the lower triangle and of the head dim.
  return {.kind = kind,
          .flops = products * static_cast<double>(q.elements()) * static_cast<double>(length),
          .extents = {q.shape[0], length, q.shape[2]}};
}

}  // namespace

std::int64_t windowed_length(std::int64_t length, std::int64_t window) {
  if (window == 0 || window >= length) return length;
  return 2 * window - window * window / length;
}

void AttentionForward::check() const {
  const Checker c(kName);
  check_inputs(c, q, k, v, segments);
  c.matches("o", o, q.shape, q.dtype);
  c.matches_contiguous("lse", lse, {q.shape[1], q.shape[0]}, accumulator_of(q.dtype));
  check_scores(c, window, score_cap);
  if (!given(parts)) return;
  c.matches_contiguous("parts", parts, {q.shape[0], parts.shape[1], q.shape[1] * (q.shape[2] + 2)},
                       accumulator_of(q.dtype));
  c.require(segments.uniform_length == 0 && segments.table.rows() == q.shape[0], "parts",
            "promise a segment for each query, but there are others");
}

Accesses AttentionForward::accesses() const {
  return {{q.bytes(), k.bytes(), v.bytes(), segments.table.bytes()},
          {o.bytes(), lse.bytes(), parts.bytes()}};
}

/// Where each segment has one query nothing is used twice but by the query heads of a kv head, so
/// the time goes to reading keys and values.
Cost AttentionForward::cost() const {
  if (segments.pairs == 0) {
    return attention_cost(CostKind::kAttentionForward, 2, q, segments, window);
  }
  const std::int64_t queries = q.shape[0];
  const std::int64_t pairs = windowed_pairs(segments.pairs, queries, window);
  const double flops =
      4 * static_cast<double>(pairs) * static_cast<double>(q.shape[1] * q.shape[2]);
  if (segments.table.rows() == queries) {
    const std::int64_t elements = 2 * (pairs * k.shape[1] * k.shape[2] + q.elements());
    return {.flops = flops, .bytes = static_cast<std::size_t>(elements) * size_of(q.dtype)};
  }
  // Rows of this length would have as many pairs.
  const auto length = std::max<std::int64_t>(1, 2 * pairs / queries);
  return {.kind = CostKind::kAttentionForward,
          .flops = flops,
          .extents = {queries, length, q.shape[2]}};
}

void AttendInt8Kv::check() const {
  const Checker c(kName);
  c.rank("q", q, 3);
  c.compute_dtype("q", q);
  c.require(q.shape[2] > 0, "q", "must have a head dim of at least 1");
  c.rank("cache.k", cache.k, 3);
  const std::int64_t kv_heads = cache.k.shape[1];
  check_int8_kv(c, cache, {cache.k.shape[0], kv_heads, q.shape[2]});
  c.require(kv_heads > 0 && q.shape[1] % kv_heads == 0, "cache.k",
            "has heads that do not divide those of q");
  c.matches_contiguous("segments", segments, {q.shape[0], 5}, DType::kI32);
  c.matches("o", o, q.shape, q.dtype);
  check_scores(c, window, score_cap);
  if (!given(parts)) return;
  c.rank("parts", parts, 3);
  c.matches_contiguous("parts", parts, {q.shape[0], parts.shape[1], q.shape[1] * (q.shape[2] + 2)},
                       accumulator_of(q.dtype));
}

Accesses AttendInt8Kv::accesses() const {
  return {{q.bytes(), cache.k.bytes(), cache.v.bytes(), cache.k_scale.bytes(),
           cache.v_scale.bytes(), segments.bytes()},
          {o.bytes(), parts.bytes()}};
}

Cost AttendInt8Kv::cost() const {
  const std::int64_t most = pairs > 0 ? pairs : q.shape[0] * cache.k.rows();
  const std::int64_t seen = windowed_pairs(most, q.shape[0], window);
  const auto elements = 2 * static_cast<std::size_t>(q.elements());
  return {.flops = 4 * static_cast<double>(seen * q.shape[1] * q.shape[2]),
          .bytes = elements * size_of(q.dtype) + int8_kv_bytes(seen, cache.k.shape)};
}

void AttentionBackward::check() const {
  const Checker c(kName);
  check_inputs(c, q, k, v, segments);
  const Shape per_query{q.shape[1], q.shape[0]};
  const DType accumulator = accumulator_of(q.dtype);
  c.matches("o", o, q.shape, q.dtype);
  c.matches("d_o", d_o, q.shape, q.dtype);
  c.matches_contiguous("lse", lse, per_query, accumulator);
  c.matches("dq", dq, q.shape, q.dtype);
  c.matches("dk", dk, k.shape, q.dtype);
  c.matches("dv", dv, k.shape, q.dtype);
  c.matches_contiguous("delta", delta, per_query, accumulator);
  check_scores(c, window, score_cap);
  if (given(dq_sum)) c.matches_contiguous("dq_sum", dq_sum, q.shape, accumulator);
  if (given(rotation)) check_rotation(c, rotation, q, k);
}

Accesses AttentionBackward::accesses() const {
  return {
      {d_o.bytes(), q.bytes(), k.bytes(), v.bytes(), o.bytes(), lse.bytes(), segments.table.bytes(),
       rotation.positions.bytes(), rotation.cos.bytes(), rotation.sin.bytes()},
      {dq.bytes(), dk.bytes(), dv.bytes(), delta.bytes(), dq_sum.bytes()}};
}

Cost AttentionBackward::cost() const {
  return attention_cost(CostKind::kAttentionBackward, 5, q, segments, window);
}

}  // namespace strata
