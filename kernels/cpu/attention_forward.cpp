// This file computes the forward of attention (strata/ops/attention.h) on the CPU, which CpuKernels
// calls through operators.h. Everything is computed in A, the accumulator type, and o is rounded
// once. Segments that leave q or k throw ShapeError. Per query:
//
//   s_j = scale q k_j,  P_j = exp(s_j - max s),  o = sum_j P_j v_j / sum_j P_j
//
// With a cap s_j becomes cap tanh(s_j / cap). Keys outside a query's window are not looked at.

#include <algorithm>

#include "kernels/cpu/attention_lines.h"
#include "kernels/cpu/attention_single.h"
#include "kernels/cpu/operators.h"

namespace strata::cpu {

namespace {

template <Compute X>
class Forward {
  using A = Accumulator<X>;

 public:
  Forward(const AttentionForward& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        cap_(static_cast<A>(op.score_cap)),
        simd_(simd),
        rows_(rows_of<X>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        lse_(op.lse),
        group_(op.q.shape[1] / op.k.shape[1]) {}

  /// Computes o and lse of a run of queries of one head.
  void run(const QueryBlock& queries, std::int64_t head) const {
    const Segment& s = queries.segment;
    const std::int64_t width = q_.width();
    const X* keys = k_.at(s.k_begin, head / group_);
    const X* values = v_.at(s.k_begin, head / group_);
    Lines<A> query(width);
    Lines<A> sum(width);
    Lines<A> scores(score_room(s));
    LineBlock block{.width = width, .padded = query.padded(), .scores = scores.padded()};
    for (std::int64_t i = queries.begin; i < queries.end; i += kBlockLines) {
      block.lines = static_cast<int>(std::min<std::int64_t>(kBlockLines, queries.end - i));
      const std::int64_t first = s.first_key(i);  // lines count keys from there
      for (int l = 0; l < block.lines; ++l) {
        query.load(l, q_.at(s.q_begin + i + l, head), width);
        block.begin[l] = s.first_key(i + l) - first;
        block.end[l] = s.visible(i + l) - first;
      }
      block.stride = k_.stride();
      rows_.dots(block, query.data(), keys + first * k_.stride(), scores.data());
      A factors[kBlockLines] = {};
      for (int l = 0; l < block.lines; ++l) {
        const SoftmaxRow<A> row{.scores = scores[l] + block.begin[l],
                                .count = block.end[l] - block.begin[l],
                                .scale = scale_};
        lse_[head][s.q_begin + i + l] = softmax(simd_, row, cap_, factors[l]);
      }
      sum.clear();
      block.stride = v_.stride();
      rows_.weighted_sums(block, scores.data(), values + first * v_.stride(), sum.data());
      for (int l = 0; l < block.lines; ++l) {
        sum.store(l, factors[l], width, o_.at(s.q_begin + i + l, head));
      }
    }
  }

 private:
  A scale_, cap_;
  const SimdKernels& simd_;
  const RowKernels<A, X>& rows_;
  Heads<const X> q_, k_, v_;
  Heads<X> o_;
  Rows<A> lse_;
  std::int64_t group_;
};

}  // namespace

void execute(const Context& context, const AttentionForward& op) {
  const auto segments = read_segments(op.kName, op.segments, op.q.rows(), op.k.rows(), op.window);
  if (std::ranges::all_of(segments, [](const Segment& s) { return s.q_length == 1; })) {
    attend_single_queries(context, op, segments);
    return;
  }
  const auto blocks = query_blocks(segments, kAttentionBlock);
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const Forward<X> forward(op, context.simd);
    for_query_blocks(context.pool, blocks, op.q.shape[1], op.q.shape[2],
                     [&](const QueryBlock& block, std::int64_t head) { forward.run(block, head); });
  });
}

}  // namespace strata::cpu
