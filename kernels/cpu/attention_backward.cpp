// This file computes the backward of attention (strata/ops/attention.h) on the CPU, which
// CpuKernels calls through operators.h. Everything is computed in A, the accumulator type, and each
// output is rounded once. Segments that leave q or k, and positions that leave the tables of a
// rotation, throw ShapeError.
//
//   dq pass   per query: P_j = exp(s_j - lse), dS_j = P_j (d_o v_j - delta),
//                        dq = scale sum_j dS_j k_j
//   dk, dv    per key:   the same P and dS as a column over queries, heads of the group in order
//
// With a cap, P_j = exp(cap t_j - lse), and dS_j has the factor 1 - t_j^2, where t_j = tanh(s_j /
// cap). Both passes leave out what is outside a window.
//
// The two passes compute the scores twice; in return no sum is shared between threads. With a
// rotation, (x[i], x[i + D/2]) of a row of dq or dk is turned back before it is rounded.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cpu/attention_lines.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"

namespace strata::cpu {

namespace {

template <Compute X>
class Backward {
  using A = Accumulator<X>;

 public:
  Backward(const AttentionBackward& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        cap_(static_cast<A>(op.score_cap)),
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
        group_(op.q.shape[1] / op.k.shape[1]) {
    if (op.rotation.positions) rotation_.emplace(op.rotation);
  }

  /// Computes delta and dq of a run of queries of one head.
  void run_queries(const QueryBlock& queries, std::int64_t head) const {
    const Segment& s = queries.segment;
    const std::int64_t width = q_.width();
    const X* keys = k_.at(s.k_begin, head / group_);
    const X* values = v_.at(s.k_begin, head / group_);
    Scratch t(width, score_room(s));
    for (std::int64_t i = queries.begin; i < queries.end; i += kBlockLines) {
      t.block.lines = static_cast<int>(std::min<std::int64_t>(kBlockLines, queries.end - i));
      const std::int64_t first = s.first_key(i);  // lines count keys from there
      for (int l = 0; l < t.block.lines; ++l) {
        const std::int64_t token = s.q_begin + i + l;
        t.first.load(l, q_.at(token, head), width);
        t.second.load(l, d_o_.at(token, head), width);
        t.block.begin[l] = s.first_key(i + l) - first;
        t.block.end[l] = s.visible(i + l) - first;
        delta_[head][token] = delta_of(t.second[l], o_.at(token, head));
      }
      const X* first_row = keys + first * k_.stride();
      multiply(t, first_row, k_.stride(), values + first * v_.stride(), v_.stride());
      for (int l = 0; l < t.block.lines; ++l) {
        const std::int64_t token = s.q_begin + i + l;
        differentiate(
            t, l, [lse = lse_[head][token]](std::int64_t) { return lse; },
            [delta = delta_[head][token]](std::int64_t) { return delta; });
      }
      t.sum_first.clear();
      t.block.stride = k_.stride();
      rows_.weighted_sums(t.block, t.ds.data(), first_row, t.sum_first.data());
      for (int l = 0; l < t.block.lines; ++l) {
        const std::int64_t token = s.q_begin + i + l;
        store_turned_back(t.sum_first, l, token, dq_.at(token, head));
      }
    }
  }

  /// Computes dk and dv of keys [begin, end) of one kv head. delta must be complete. Keys that
  /// belong to no segment get zeros.
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
    for (std::int64_t key = begin; key < end; key += kBlockLines) {
      t.block.lines = static_cast<int>(std::min<std::int64_t>(kBlockLines, end - key));
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
          t.block.end[l] = inside ? s.end_query(j) : 0;
        }
        for (std::int64_t h = kv_head * group_; h < (kv_head + 1) * group_; ++h) {
          add_columns(s, h, t);
        }
      }
      for (int l = 0; l < t.block.lines; ++l) {
        store_turned_back(t.sum_first, l, key + l, dk_.at(key + l, kv_head));
        t.sum_second.store(l, A{1}, width, dv_.at(key + l, kv_head));
      }
    }
  }

 private:
  struct Rotation {
    explicit Rotation(const RopeAngles& angles)
        : positions(angles.positions.as<std::int32_t>()), cosines(angles.cos), sines(angles.sin) {}
    const std::int32_t* positions;
    Rows<const A> cosines, sines;
  };

  /// The scratch of one thread. Its lines are queries (first holds q, second d_o) or keys (first
  /// holds k, second v).
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
        sum_second;  ///< weighted sums of the rows that first, second are multiplied with
    Lines<A> p, ds;  ///< rows or columns of P and dS
  };

  /// Returns rowsum(d_o * o) of one query.
  A delta_of(const A* d_o, const X* o) const {
    return lane_sum<A>(q_.width(), [=](std::int64_t d) { return d_o[d] * static_cast<A>(o[d]); });
  }

  /// Scales a line of sums, turns it back by the angles of `token` if there is a rotation, and
  /// writes it rounded.
  void store_turned_back(Lines<A>& sums, int line, std::int64_t token, X* to) const {
    const std::int64_t half = q_.width() / 2;
    if (!rotation_) return sums.store(line, scale_, q_.width(), to);
    const A* cosine = rotation_->cosines[rotation_->positions[token]];
    const A* sine = rotation_->sines[rotation_->positions[token]];
    for (std::int64_t i = 0; i < half; ++i) {
      const A a = sums[line][i] * scale_;
      const A b = sums[line][i + half] * scale_;
      to[i] = X(a * cosine[i] + b * sine[i]);
      to[i + half] = X(b * cosine[i] - a * sine[i]);
    }
  }

  /// Computes p = first . rows_first and ds = second . rows_second for the rows that each line
  /// takes.
  void multiply(Scratch& t, const X* rows_first, std::int64_t stride_first, const X* rows_second,
                std::int64_t stride_second) const {
    t.block.stride = stride_first;
    rows_.dots(t.block, t.first.data(), rows_first, t.p.data());
    t.block.stride = stride_second;
    rows_.dots(t.block, t.second.data(), rows_second, t.ds.data());
  }

  /// Turns a line's dots of q and k and of d_o and v into P and dS. `lse` and `delta` give those of
  /// a row.
  template <class Lse, class Delta>
  void differentiate(Scratch& t, int line, const Lse& lse, const Delta& delta) const {
    const std::int64_t begin = t.block.begin[line];
    const std::int64_t end = t.block.end[line];
    A* p = t.p[line];
    A* ds = t.ds[line];
    if (cap_ == 0) {
      for (std::int64_t i = begin; i < end; ++i) p[i] = scale_ * p[i] - lse(i);
      exponentials(simd_, p + begin, end - begin);
      for (std::int64_t i = begin; i < end; ++i) ds[i] = p[i] * (ds[i] - delta(i));
      return;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const A t_i = std::tanh(scale_ * p[i] / cap_);
      p[i] = cap_ * t_i - lse(i);
      ds[i] = (ds[i] - delta(i)) * (1 - t_i * t_i);
    }
    exponentials(simd_, p + begin, end - begin);
    for (std::int64_t i = begin; i < end; ++i) ds[i] *= p[i];
  }

  /// Adds to dk and dv of the keys in `t` what the queries of one segment and head give.
  void add_columns(const Segment& s, std::int64_t head, Scratch& t) const {
    const X* q = q_.at(s.q_begin, head);
    const X* d_o = d_o_.at(s.q_begin, head);
    multiply(t, q, q_.stride(), d_o, d_o_.stride());
    const A* lse = lse_[head] + s.q_begin;
    const A* delta = delta_[head] + s.q_begin;
    for (int l = 0; l < t.block.lines; ++l) {
      differentiate(
          t, l, [=](std::int64_t i) { return lse[i]; }, [=](std::int64_t i) { return delta[i]; });
    }
    t.block.stride = q_.stride();
    rows_.weighted_sums(t.block, t.ds.data(), q, t.sum_first.data());
    t.block.stride = d_o_.stride();
    rows_.weighted_sums(t.block, t.p.data(), d_o, t.sum_second.data());
  }

  A scale_, cap_;
  const SimdKernels& simd_;
  const RowKernels<A, X>& rows_;
  Heads<const X> d_o_, q_, k_, v_, o_;
  Heads<X> dq_, dk_, dv_;
  Rows<const A> lse_;
  Rows<A> delta_;
  std::optional<Rotation> rotation_;
  std::int64_t group_;
};

}  // namespace

void execute(const Context& context, const AttentionBackward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows(), op.window);
  const auto blocks = query_blocks(segments, kAttentionBlock);
  const std::int64_t keys = op.k.rows();
  if (op.rotation.positions) {
    const auto* positions = op.rotation.positions.as<std::int32_t>();
    for (std::int64_t n = 0; n < keys; ++n) {
      check_index(op.kName, "rotation.positions", n, positions[n], op.rotation.cos.rows());
    }
  }
  const std::int64_t key_blocks = (keys + kAttentionBlock - 1) / kAttentionBlock;
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Backward<X> backward(op, context.simd);
    for_query_blocks(
        context.pool, blocks, op.q.shape[1], op.q.shape[2],
        [&](const QueryBlock& block, std::int64_t head) { backward.run_queries(block, head); });
    const std::int64_t scores =
        std::min(keys, kAttentionBlock) * op.q.rows();  // of a head, at most
    const std::int64_t group = op.q.shape[1] / op.k.shape[1];
    const std::int64_t grain = grain_for(group * scores * op.q.shape[2] / kProductsAtOnce);
    context.pool.parallel_for(
        key_blocks * op.k.shape[1], grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i % key_blocks * kAttentionBlock;
            backward.run_keys(segments, first, std::min(first + kAttentionBlock, keys),
                              i / key_blocks);
          }
        });
  });
}

}  // namespace strata::cpu
