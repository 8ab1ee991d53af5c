// Attention by rows: the scores of four queries (or, for dk and dv, four keys) are all that exists
// per thread. Formulas in strata/ops/attention.h; everything in A, outputs rounded once.
//   forward   per query: s_j = scale q k_j, P = exp(s - max), o = sum_j P_j v_j / sum_j P_j
//   dq pass   per query: P_j = exp(s_j - lse), dS_j = P_j (d_o v_j - delta),
//                        dq = scale sum_j dS_j k_j
//   dk, dv    per key:   the same P and dS as a column over queries, heads of the group in order
// The two backward passes compute the scores twice; in return no sum is shared between threads.

#include "strata/ops/attention.h"

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

constexpr std::int64_t kBlock = 32;  // queries, or keys, of one head per chunk of parallel work

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

/// kMost lines of scratch: of `width` elements each, padded with zeros.
template <class A>
class Lines {
 public:
  explicit Lines(std::int64_t width)
      : padded_((width + LineBlock::kPadding - 1) / LineBlock::kPadding * LineBlock::kPadding),
        data_(static_cast<std::size_t>(LineBlock::kMost * padded_)) {}

  [[nodiscard]] A* data() { return data_.data(); }
  [[nodiscard]] A* operator[](int line) { return data_.data() + line * padded_; }
  [[nodiscard]] std::int64_t padded() const { return padded_; }
  void clear() { std::fill(data_.begin(), data_.end(), A{0}); }
  template <Compute X>
  void load(int line, const X* from, std::int64_t width) {
    for (std::int64_t d = 0; d < width; ++d) (*this)[line][d] = static_cast<A>(from[d]);
  }
  template <Compute X>
  void store(int line, A factor, std::int64_t width, X* to) {
    for (std::int64_t d = 0; d < width; ++d) to[d] = X((*this)[line][d] * factor);
  }

 private:
  std::int64_t padded_;
  std::vector<A> data_;
};

template <Compute X>
class Forward {
  using A = Accumulator<X>;

 public:
  Forward(const AttentionForward& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        simd_(simd),
        rows_(rows_of<X>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        lse_(op.lse),
        group_(op.q.shape[1] / op.k.shape[1]) {}

  void run(const QueryBlock& queries, std::int64_t head) const {
    const Segment& s = queries.segment;
    const std::int64_t width = q_.width();
    const X* keys = k_.at(s.k_begin, head / group_);
    const X* values = v_.at(s.k_begin, head / group_);
    Lines<A> query(width);
    Lines<A> sum(width);
    Lines<A> scores(s.k_length);
    LineBlock block{.width = width, .padded = query.padded(), .scores = scores.padded()};
    for (std::int64_t i = queries.begin; i < queries.end; i += LineBlock::kMost) {
      block.lines = static_cast<int>(std::min<std::int64_t>(LineBlock::kMost, queries.end - i));
      for (int l = 0; l < block.lines; ++l) {
        query.load(l, q_.at(s.q_begin + i + l, head), width);
        block.end[l] = s.visible(i + l);
      }
      block.stride = k_.stride();
      rows_.dots(block, query.data(), keys, scores.data());
      A factors[LineBlock::kMost] = {};
      for (int l = 0; l < block.lines; ++l) {
        lse_[head][s.q_begin + i + l] = softmax(scores[l], block.end[l], factors[l]);
      }
      sum.clear();
      block.stride = v_.stride();
      rows_.weighted_sums(block, scores.data(), values, sum.data());
      for (int l = 0; l < block.lines; ++l) {
        sum.store(l, factors[l], width, o_.at(s.q_begin + i + l, head));
      }
    }
  }

 private:
  /// Turns dot products into exp(score - max), `factor` into 1 / their sum, and returns lse. A
  /// query that sees nothing has o = 0 and lse = -infinity.
  A softmax(A* scores, std::int64_t count, A& factor) const {
    if (count == 0) return -std::numeric_limits<A>::infinity();
    for (std::int64_t j = 0; j < count; ++j) scores[j] *= scale_;
    const A top = *std::max_element(scores, scores + count);
    for (std::int64_t j = 0; j < count; ++j) scores[j] -= top;
    exponentials(simd_, scores, count);
    const A sum = lane_sum<A>(count, [=](std::int64_t j) { return scores[j]; });
    factor = 1 / sum;
    return top + std::log(sum);
  }

  A scale_;
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
  void run_queries(const QueryBlock& queries, std::int64_t head) const {
    const Segment& s = queries.segment;
    const std::int64_t width = q_.width();
    const X* keys = k_.at(s.k_begin, head / group_);
    const X* values = v_.at(s.k_begin, head / group_);
    Scratch t(width, s.k_length);
    for (std::int64_t i = queries.begin; i < queries.end; i += LineBlock::kMost) {
      t.block.lines = static_cast<int>(std::min<std::int64_t>(LineBlock::kMost, queries.end - i));
      for (int l = 0; l < t.block.lines; ++l) {
        const std::int64_t token = s.q_begin + i + l;
        t.first.load(l, q_.at(token, head), width);
        t.second.load(l, d_o_.at(token, head), width);
        t.block.end[l] = s.visible(i + l);
        delta_[head][token] = delta_of(t.second[l], o_.at(token, head));
      }
      multiply(t, keys, k_.stride(), values, v_.stride());
      for (int l = 0; l < t.block.lines; ++l) {
        const std::int64_t token = s.q_begin + i + l;
        const A lse = lse_[head][token];
        const A delta = delta_[head][token];
        A* p = t.p[l];
        A* ds = t.ds[l];
        const std::int64_t count = t.block.end[l];
        for (std::int64_t j = 0; j < count; ++j) p[j] = scale_ * p[j] - lse;
        exponentials(simd_, p, count);
        for (std::int64_t j = 0; j < count; ++j) ds[j] = p[j] * (ds[j] - delta);
      }
      t.sum_first.clear();
      t.block.stride = k_.stride();
      rows_.weighted_sums(t.block, t.ds.data(), keys, t.sum_first.data());
      for (int l = 0; l < t.block.lines; ++l) {
        t.sum_first.store(l, scale_, width, dq_.at(s.q_begin + i + l, head));
      }
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
    for (std::int64_t key = begin; key < end; key += LineBlock::kMost) {
      t.block.lines = static_cast<int>(std::min<std::int64_t>(LineBlock::kMost, end - key));
      for (int l = 0; l < t.block.lines; ++l) {
        t.first.load(l, k_.at(key + l, kv_head), width);
        t.second.load(l, v_.at(key + l, kv_head), width);
      }
      t.sum_first.clear();
      t.sum_second.clear();
      for (const Segment& s : here) {
        for (int l = 0; l < t.block.lines; ++l) {
          const std::int64_t j = key + l - s.k_begin;
          const bool inside = j >= 0 && j < s.k_length;
          t.block.begin[l] = inside ? s.first_query(j) : 0;
          t.block.end[l] = inside ? s.q_length : 0;
        }
        for (std::int64_t h = kv_head * group_; h < (kv_head + 1) * group_; ++h) {
          add_columns(s, h, t);
        }
      }
      for (int l = 0; l < t.block.lines; ++l) {
        t.sum_first.store(l, scale_, width, dk_.at(key + l, kv_head));
        t.sum_second.store(l, A{1}, width, dv_.at(key + l, kv_head));
      }
    }
  }

 private:
  /// Lines are queries (first q, second d_o) or keys (first k, second v).
  struct Scratch {
    Scratch(std::int64_t width, std::int64_t length)
        : first(width), second(width), sum_first(width), sum_second(width), p(length), ds(length) {
      block.width = width;
      block.padded = first.padded();
      block.scores = p.padded();
    }
    LineBlock block;
    Lines<A> first, second;
    Lines<A> sum_first,
        sum_second;  ///< weighted sums of what the first, the second are multiplied with
    Lines<A> p, ds;  ///< rows or columns of P and dS
  };

  A delta_of(const A* d_o, const X* o) const {
    return lane_sum<A>(q_.width(), [=](std::int64_t d) { return d_o[d] * static_cast<A>(o[d]); });
  }

  /// p = first . rows_first, ds = second . rows_second.
  void multiply(Scratch& t, const X* rows_first, std::int64_t stride_first, const X* rows_second,
                std::int64_t stride_second) const {
    t.block.stride = stride_first;
    rows_.dots(t.block, t.first.data(), rows_first, t.p.data());
    t.block.stride = stride_second;
    rows_.dots(t.block, t.second.data(), rows_second, t.ds.data());
  }

  /// Adds what the queries of a segment's head give to the keys in `t`.
  void add_columns(const Segment& s, std::int64_t head, Scratch& t) const {
    const X* q = q_.at(s.q_begin, head);
    const X* d_o = d_o_.at(s.q_begin, head);
    multiply(t, q, q_.stride(), d_o, d_o_.stride());
    const A* lse = lse_[head] + s.q_begin;
    const A* delta = delta_[head] + s.q_begin;
    for (int l = 0; l < t.block.lines; ++l) {
      const std::int64_t begin = t.block.begin[l];
      const std::int64_t end = t.block.end[l];
      A* p = t.p[l];
      A* ds = t.ds[l];
      for (std::int64_t i = begin; i < end; ++i) p[i] = scale_ * p[i] - lse[i];
      exponentials(simd_, p + begin, end - begin);
      for (std::int64_t i = begin; i < end; ++i) ds[i] = p[i] * (ds[i] - delta[i]);
    }
    t.block.stride = q_.stride();
    rows_.weighted_sums(t.block, t.ds.data(), q, t.sum_first.data());
    t.block.stride = d_o_.stride();
    rows_.weighted_sums(t.block, t.p.data(), d_o, t.sum_second.data());
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

/// Calls run(block, head) for every block of queries and every head, in parallel.
template <class F>
void for_query_blocks(ThreadPool& pool, const std::vector<QueryBlock>& blocks, std::int64_t heads,
                      const F& run) {
  const auto count = static_cast<std::int64_t>(blocks.size());
  pool.parallel_for(count * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      run(blocks[static_cast<std::size_t>(i % count)], i / count);
    }
  });
}

}  // namespace

void execute(const Context& context, const AttentionForward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows());
  const auto blocks = query_blocks(segments, kBlock);
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Forward<X> forward(op, context.simd);
    for_query_blocks(context.pool, blocks, op.q.shape[1],
                     [&](const QueryBlock& block, std::int64_t head) { forward.run(block, head); });
  });
}

void execute(const Context& context, const AttentionBackward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows());
  const auto blocks = query_blocks(segments, kBlock);
  const std::int64_t keys = op.k.rows();
  const std::int64_t key_blocks = (keys + kBlock - 1) / kBlock;
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Backward<X> backward(op, context.simd);
    for_query_blocks(
        context.pool, blocks, op.q.shape[1],
        [&](const QueryBlock& block, std::int64_t head) { backward.run_queries(block, head); });
    context.pool.parallel_for(
        key_blocks * op.k.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i % key_blocks * kBlock;
            backward.run_keys(segments, first, std::min(first + kBlock, keys), i / key_blocks);
          }
        });
  });
}

}  // namespace strata::cpu
