// This file computes attention where each segment has one query: then all the time goes to reading
// keys and values. They are read for several heads that lie side by side in memory, some keys at a
// time and the next ones ahead, so that memory sees long runs. Each head's sums are those of
// attention_forward.cpp, in the same order.

#include "kernels/cpu/attention_single.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/attention_lines.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kRun = 16;        // keys that all heads of a task see before the next ones
constexpr std::int64_t kLineBytes = 64;  // of the processor's caches
constexpr std::int64_t kMostHeads = 8;   // kv heads of a task: what they need fits a core's cache
constexpr std::int64_t kTasksEach = 4;  // a thread has at least so many, if there are as many heads

/// Query heads of one kv head, which are multiplied with its keys together.
template <class A>
struct HeadLines {
  HeadLines(std::int64_t width, std::int64_t keys, std::int64_t first, std::int64_t lines)
      : head(first), query(width, lines), sum(width, lines), scores(keys, lines) {
    block.lines = static_cast<int>(lines);
    block.width = width;
    block.padded = query.padded();
    block.scores = scores.padded();
  }

  std::int64_t head;  ///< the first
  LineBlock block{};
  Lines<A> query;
  Lines<A> sum;
  Lines<A> scores;
  A factors[LineBlock::kMost] = {};
};

template <Compute X>
class SingleQueries {
  using A = Accumulator<X>;

 public:
  SingleQueries(const AttentionForward& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        simd_(simd),
        rows_(rows_of<X>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        lse_(op.lse),
        group_(op.q.shape[1] / op.k.shape[1]) {}

  /// Computes a segment for the query heads of kv heads [begin, end).
  void run(const Segment& s, std::int64_t begin, std::int64_t end) const {
    const std::int64_t count = s.visible(0);
    std::vector<HeadLines<A>> all = load(s, begin, end, count);
    for_runs(all, count, k_, s.k_begin, [&](HeadLines<A>& h, const X* keys) {
      rows_.dots(h.block, h.query.data(), keys, h.scores.data());
    });
    for (HeadLines<A>& h : all) {
      for (int l = 0; l < h.block.lines; ++l) {
        lse_[h.head + l][s.q_begin] = softmax(simd_, scale_, h.scores[l], count, h.factors[l]);
      }
    }
    for_runs(all, count, v_, s.k_begin, [&](HeadLines<A>& h, const X* values) {
      rows_.weighted_sums(h.block, h.scores.data(), values, h.sum.data());
    });
    for (HeadLines<A>& h : all) {
      for (int l = 0; l < h.block.lines; ++l) {
        h.sum.store(l, h.factors[l], q_.width(), o_.at(s.q_begin, h.head + l));
      }
    }
  }

 private:
  [[nodiscard]] std::vector<HeadLines<A>> load(const Segment& s, std::int64_t begin,
                                               std::int64_t end, std::int64_t keys) const {
    std::vector<HeadLines<A>> all;
    for (std::int64_t head = begin * group_; head < end * group_; head += all.back().block.lines) {
      const std::int64_t lines = std::min<std::int64_t>(LineBlock::kMost, group_ - head % group_);
      HeadLines<A>& h = all.emplace_back(q_.width(), keys, head, lines);
      for (int l = 0; l < h.block.lines; ++l) {
        h.query.load(l, q_.at(s.q_begin, head + l), q_.width());
      }
    }
    return all;
  }

  /// Calls run(head lines, their first row) for a run of keys of all heads, then for the next run.
  template <class Run>
  void for_runs(std::vector<HeadLines<A>>& all, std::int64_t count, const Heads<const X>& from,
                std::int64_t first, const Run& run) const {
    for (std::int64_t begin = 0; begin < count; begin += kRun) {
      const std::int64_t end = std::min(begin + kRun, count);
      for (HeadLines<A>& h : all) {
        const X* rows = from.at(first, h.head / group_);
        fetch(rows, from.stride(), end, std::min(end + kRun, count));
        h.block.stride = from.stride();
        std::fill_n(h.block.begin, h.block.lines, begin);
        std::fill_n(h.block.end, h.block.lines, end);
        run(h, rows);
      }
    }
  }

  /// Has the processor read rows [begin, end) of a head, which are needed soon.
  void fetch(const X* rows, std::int64_t stride, std::int64_t begin, std::int64_t end) const {
    const std::int64_t bytes = q_.width() * static_cast<std::int64_t>(sizeof(X));
    for (std::int64_t j = begin; j < end; ++j) {
      const auto* row = reinterpret_cast<const std::byte*>(rows + j * stride);
      for (std::int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at, 0, 2);
    }
  }

  A scale_;
  const SimdKernels& simd_;
  const RowKernels<A, X>& rows_;
  Heads<const X> q_, k_, v_;
  Heads<X> o_;
  Rows<A> lse_;
  std::int64_t group_;
};

/// Returns how many kv heads a task takes: as many as leave each thread some tasks.
std::int64_t heads_of_task(std::int64_t segments, std::int64_t kv_heads, int threads) {
  const std::int64_t tasks = (kTasksEach * threads + segments - 1) / segments;  // of a segment
  return std::clamp<std::int64_t>(kv_heads / std::min(tasks, kv_heads), 1, kMostHeads);
}

}  // namespace

void attend_single_queries(const Context& context, const AttentionForward& op,
                           const std::vector<Segment>& segments) {
  if (segments.empty()) return;
  const auto count = static_cast<std::int64_t>(segments.size());
  const std::int64_t kv_heads = op.k.shape[1];
  const std::int64_t heads = heads_of_task(count, kv_heads, context.pool.threads());
  const std::int64_t tasks = (kv_heads + heads - 1) / heads;  // of each segment
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    const SingleQueries<X> queries(op, context.simd);
    context.pool.parallel_for(count * tasks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % tasks * heads;
        queries.run(segments[static_cast<std::size_t>(i / tasks)], first,
                    std::min(first + heads, kv_heads));
      }
    });
  });
}

}  // namespace strata::cpu
