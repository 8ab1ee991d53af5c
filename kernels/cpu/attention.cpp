// Attention by rows: one query's scores (or, for dk and dv, one key's) are all that ever exists per
// thread. Formulas in strata/ops/attention.h; everything in A, outputs rounded once.
//   forward   per query: s_j = scale q k_j, P = exp(s - max) / sum, o = sum_j P_j v_j
//   dq pass   per query: P_j = exp(s_j - lse), dS_j = P_j (d_o v_j - delta), dq = scale sum_j dS_j
//   k_j dk, dv    per key:   the same P and dS as a column over queries, heads of the group in
//   order
// The two backward passes compute the scores twice, and no sum is shared between threads.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_segments.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kQueryBlock = 32;  // queries or keys of one head per chunk

template <Compute X>
const RowKernels<Accumulator<X>, X>& rows_of(const SimdKernels& simd) {
  if constexpr (std::same_as<X, double>) {
    return simd.rows_f64;
  } else if constexpr (std::same_as<X, float>) {
    return simd.rows_f32;
  } else {
    return simd.rows_bf16;
  }
}

/// Heads of tokens: element [token, head, 0].
template <class T>
class Heads {
 public:
  template <class Void>
  explicit Heads(const BasicTensorView<Void>& view) : rows_(view), width_(view.shape[2]) {}
  [[nodiscard]] T* at(std::int64_t token, std::int64_t head) const {
    return rows_[token] + head * width_;
  }
  [[nodiscard]] std::int64_t stride() const { return rows_.stride(); }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  Rows<T> rows_;
  std::int64_t width_;
};

template <Compute X, class A = Accumulator<X>>
void widen_row(const X* from, std::int64_t width, A* to) {
  for (std::int64_t d = 0; d < width; ++d) to[d] = static_cast<A>(from[d]);
}

template <Compute X, class A = Accumulator<X>>
void round_row(const A* from, A factor, std::int64_t width, X* to) {
  for (std::int64_t d = 0; d < width; ++d) to[d] = X(from[d] * factor);
}

/// Turns scores into exp(score - max) and returns {max, sum}.
template <class A>
std::pair<A, A> exponentiate(const SimdKernels& simd, A* scores, std::int64_t count) {
  const A top = *std::max_element(scores, scores + count);
  for (std::int64_t j = 0; j < count; ++j) scores[j] -= top;
  exponentials(simd, scores, count);
  const A sum = lane_sum<A>(count, [=](std::int64_t j) { return scores[j]; });
  return {top, sum};
}

template <Compute X>
class Forward {
  using A = Accumulator<X>;

 public:
  Forward(const AttentionForward& op, const SimdKernels& simd)
      : op_(op),
        simd_(simd),
        rows_(rows_of<X>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        lse_(op.lse),
        group_(op.q.shape[1] / op.k.shape[1]) {}

  void run(const QueryBlock& block, std::int64_t head) const {
    const Segment& s = block.segment;
    const std::int64_t width = q_.width();
    const std::int64_t kv_head = head / group_;
    std::vector<A> query(static_cast<std::size_t>(width));
    std::vector<A> sum(static_cast<std::size_t>(width));
    std::vector<A> scores(static_cast<std::size_t>(s.k_length));
    for (std::int64_t i = block.begin; i < block.end; ++i) {
      const std::int64_t token = s.q_begin + i;
      const std::int64_t seen = s.visible(i);
      A lse = -std::numeric_limits<A>::infinity();
      A factor = 0;
      std::fill(sum.begin(), sum.end(), A{0});
      if (seen > 0) {
        widen_row(q_.at(token, head), width, query.data());
        rows_.dots(query.data(), k_.at(s.k_begin, kv_head), k_.stride(), seen, width,
                   static_cast<A>(op_.scale), scores.data());
        const auto [top, total] = exponentiate(simd_, scores.data(), seen);
        rows_.weighted_sum(scores.data(), v_.at(s.k_begin, kv_head), v_.stride(), seen, width,
                           sum.data());
        lse = top + std::log(total);
        factor = 1 / total;
      }
      round_row(sum.data(), factor, width, o_.at(token, head));
      lse_[head][token] = lse;
    }
  }

 private:
  const AttentionForward& op_;
  const SimdKernels& simd_;
  const RowKernels<A, X>& rows_;
  Heads<const X> q_, k_, v_;
  Heads<X> o_;
  Rows<A> lse_;
  std::int64_t group_;
};

template <Compute X>
class Backward {
  using A = Accumulator<X>;

 public:
  Backward(const AttentionBackward& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        simd_(simd),
        rows_(rows_of<X>(simd)),
        d_o_(op.d_o),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        dq_(op.dq),
        dk_(op.dk),
        dv_(op.dv),
        lse_(op.lse),
        delta_(op.delta),
        group_(op.q.shape[1] / op.k.shape[1]) {}

  /// delta and dq of a run of queries.
  void run_queries(const QueryBlock& block, std::int64_t head) const {
    const Segment& s = block.segment;
    const std::int64_t width = q_.width();
    const std::int64_t kv_head = head / group_;
    Scratch t(width, s.k_length);
    for (std::int64_t i = block.begin; i < block.end; ++i) {
      const std::int64_t token = s.q_begin + i;
      const std::int64_t seen = s.visible(i);
      widen_row(q_.at(token, head), width, t.a.data());
      widen_row(d_o_.at(token, head), width, t.b.data());
      const X* o = o_.at(token, head);
      const A delta = lane_sum<A>(width, [&](std::int64_t d) {
        return t.b[static_cast<std::size_t>(d)] * static_cast<A>(o[d]);
      });
      delta_[head][token] = delta;
      rows_.dots(t.a.data(), k_.at(s.k_begin, kv_head), k_.stride(), seen, width, scale_,
                 t.p.data());
      rows_.dots(t.b.data(), v_.at(s.k_begin, kv_head), v_.stride(), seen, width, A{1},
                 t.ds.data());
      const A lse = lse_[head][token];
      const auto count = static_cast<std::size_t>(seen);
      for (std::size_t j = 0; j < count; ++j) t.p[j] -= lse;
      exponentials(simd_, t.p.data(), seen);
      for (std::size_t j = 0; j < count; ++j) t.ds[j] = t.p[j] * (t.ds[j] - delta);
      std::fill(t.sum_k.begin(), t.sum_k.end(), A{0});
      rows_.weighted_sum(t.ds.data(), k_.at(s.k_begin, kv_head), k_.stride(), seen, width,
                         t.sum_k.data());
      round_row(t.sum_k.data(), scale_, width, dq_.at(token, head));
    }
  }

  /// dk and dv of keys [begin, end); delta is complete. Keys of no segment get zeros.
  void run_keys(const std::vector<Segment>& segments, std::int64_t begin, std::int64_t end,
                std::int64_t kv_head) const {
    std::vector<Segment> here;
    std::int64_t longest = 0;
    for (const Segment& s : segments) {
      if (s.k_begin >= end || s.k_begin + s.k_length <= begin) continue;
      here.push_back(s);
      longest = std::max(longest, s.q_length);
    }
    const std::int64_t width = q_.width();
    Scratch t(width, longest);
    for (std::int64_t key = begin; key < end; ++key) {
      widen_row(k_.at(key, kv_head), width, t.a.data());
      widen_row(v_.at(key, kv_head), width, t.b.data());
      std::fill(t.sum_k.begin(), t.sum_k.end(), A{0});
      std::fill(t.sum_v.begin(), t.sum_v.end(), A{0});
      for (const Segment& s : here) {
        if (key < s.k_begin || key >= s.k_begin + s.k_length) continue;
        for (std::int64_t h = kv_head * group_; h < (kv_head + 1) * group_; ++h) {
          add_column(s, s.first_query(key - s.k_begin), h, t);
        }
      }
      round_row(t.sum_k.data(), scale_, width, dk_.at(key, kv_head));
      round_row(t.sum_v.data(), A{1}, width, dv_.at(key, kv_head));
    }
  }

 private:
  struct Scratch {
    Scratch(std::int64_t width, std::int64_t length)
        : a(static_cast<std::size_t>(width)),
          b(a),
          sum_k(a),
          sum_v(a),
          p(static_cast<std::size_t>(length)),
          ds(p) {}
    std::vector<A> a, b;          ///< q and d_o of a query, or k and v of a key
    std::vector<A> sum_k, sum_v;  ///< weighted sums for dq or dk, and for dv
    std::vector<A> p, ds;         ///< one row or column of P and dS
  };

  /// Adds what queries [first, q_length) of a segment's head give to the key in `t`.
  void add_column(const Segment& s, std::int64_t first, std::int64_t head, Scratch& t) const {
    const std::int64_t count = s.q_length - first;
    if (count <= 0) return;
    const std::int64_t token = s.q_begin + first;
    const std::int64_t width = q_.width();
    const X* q = q_.at(token, head);
    const X* d_o = d_o_.at(token, head);
    rows_.dots(t.a.data(), q, q_.stride(), count, width, scale_, t.p.data());
    rows_.dots(t.b.data(), d_o, d_o_.stride(), count, width, A{1}, t.ds.data());
    const A* lse = lse_[head] + token;
    const A* delta = delta_[head] + token;
    A* p = t.p.data();
    A* ds = t.ds.data();
    for (std::int64_t i = 0; i < count; ++i) p[i] -= lse[i];
    exponentials(simd_, p, count);
    for (std::int64_t i = 0; i < count; ++i) ds[i] = p[i] * (ds[i] - delta[i]);
    rows_.weighted_sum(t.p.data(), d_o, d_o_.stride(), count, width, t.sum_v.data());
    rows_.weighted_sum(t.ds.data(), q, q_.stride(), count, width, t.sum_k.data());
  }

  A scale_;
  const SimdKernels& simd_;
  const RowKernels<A, X>& rows_;
  Heads<const X> d_o_, q_, k_, v_, o_;
  Heads<X> dq_, dk_, dv_;
  Rows<const A> lse_;
  Rows<A> delta_;
  std::int64_t group_;
};

}  // namespace

void execute(const Context& context, const AttentionForward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows());
  const auto blocks = query_blocks(segments, kQueryBlock);
  const auto count = static_cast<std::int64_t>(blocks.size());
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Forward<X> forward(op, context.simd);
    context.pool.parallel_for(count * op.q.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        forward.run(blocks[static_cast<std::size_t>(i % count)], i / count);
      }
    });
  });
}

void execute(const Context& context, const AttentionBackward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows());
  const auto blocks = query_blocks(segments, kQueryBlock);
  const auto count = static_cast<std::int64_t>(blocks.size());
  const std::int64_t keys = op.k.rows();
  const std::int64_t key_blocks = (keys + kQueryBlock - 1) / kQueryBlock;
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Backward<X> backward(op, context.simd);
    context.pool.parallel_for(count * op.q.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        backward.run_queries(blocks[static_cast<std::size_t>(i % count)], i / count);
      }
    });
    context.pool.parallel_for(
        key_blocks * op.k.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i % key_blocks * kQueryBlock;
            backward.run_keys(segments, first, std::min(first + kQueryBlock, keys), i / key_blocks);
          }
        });
  });
}

}  // namespace strata::cpu
