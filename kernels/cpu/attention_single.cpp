// This file computes attention where each segment has one query: then all the time goes to reading
// keys and values. They are read for several heads that lie side by side in memory, some keys at a
// time and the next ones ahead, so that memory sees long runs. Each head's sums are those of
// attention_forward.cpp, in the same order. Keys and values may be int8: then the dots of a run of
// keys are multiplied with the keys' scales, and the weights of a run of values with theirs.

#include "kernels/cpu/attention_single.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

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

/// Keys or values, each row of a head with a factor of its own if they are int8.
template <class Kept>
struct KeptHeads {
  static constexpr bool kScaled = std::same_as<Kept, std::int8_t>;

  Heads<const Kept> heads;
  const float* scales = nullptr;  ///< [R, K]
  std::int64_t scale_stride = 0;  ///< elements from one row to the next

  [[nodiscard]] const float* scale(std::int64_t row, std::int64_t head) const {
    return scales + row * scale_stride + head;
  }
};

/// What AttentionForward and AttendInt8Kv have in common.
template <class Kept>
struct SingleArguments {
  ConstTensorView q;
  KeptHeads<Kept> k, v;
  TensorView o;
  TensorView lse;  ///< or absent
  std::int64_t kv_heads;
  double scale;
};

/// `Kept` is X, or int8.
template <Compute X, class Kept>
class SingleQueries {
  using A = Accumulator<X>;

 public:
  SingleQueries(const SingleArguments<Kept>& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        simd_(simd),
        rows_(rows_of<X, Kept>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        group_(op.q.shape[1] / op.kv_heads) {
    if (op.lse) lse_.emplace(op.lse);
  }

  /// Computes a segment for the query heads of kv heads [begin, end).
  void run(const Segment& s, std::int64_t begin, std::int64_t end) const {
    const std::int64_t count = s.visible(0);
    std::vector<HeadLines<A>> all = load(s, begin, end, count);
    for_runs(all, count, k_, s.k_begin, [&](HeadLines<A>& h, const Kept* keys) {
      rows_.dots(h.block, h.query.data(), keys, h.scores.data());
      multiply_scales(h, k_, s.k_begin);
    });
    for (HeadLines<A>& h : all) {
      for (int l = 0; l < h.block.lines; ++l) {
        const A lse = softmax(simd_, scale_, h.scores[l], count, h.factors[l]);
        if (lse_) (*lse_)[h.head + l][s.q_begin] = lse;
      }
    }
    for_runs(all, count, v_, s.k_begin, [&](HeadLines<A>& h, const Kept* values) {
      multiply_scales(h, v_, s.k_begin);
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
  void for_runs(std::vector<HeadLines<A>>& all, std::int64_t count, const KeptHeads<Kept>& from,
                std::int64_t first, const Run& run) const {
    for (std::int64_t begin = 0; begin < count; begin += kRun) {
      const std::int64_t end = std::min(begin + kRun, count);
      const std::int64_t ahead = std::min(end + kRun, count);
      if constexpr (KeptHeads<Kept>::kScaled) {  // those of all heads are in a line or two
        fetch(from.scale(first, all.front().head / group_), from.scale_stride, 1, end, ahead);
      }
      for (HeadLines<A>& h : all) {
        const Kept* rows = from.heads.at(first, h.head / group_);
        fetch(rows, from.heads.stride(), q_.width(), end, ahead);
        h.block.stride = from.heads.stride();
        std::fill_n(h.block.begin, h.block.lines, begin);
        std::fill_n(h.block.end, h.block.lines, end);
        run(h, rows);
      }
    }
  }

  /// Multiplies the scores of the rows of a run with their scales.
  void multiply_scales(HeadLines<A>& h, const KeptHeads<Kept>& of, std::int64_t first) const {
    if constexpr (KeptHeads<Kept>::kScaled) {
      const float* scale = of.scale(first + h.block.begin[0], h.head / group_);
      for (std::int64_t j = h.block.begin[0]; j < h.block.end[0]; ++j) {
        for (int l = 0; l < h.block.lines; ++l) h.scores[l][j] *= *scale;
        scale += of.scale_stride;
      }
    }
  }

  /// Has the processor read rows [begin, end), `width` elements of each, which are needed soon.
  template <class T>
  static void fetch(const T* rows, std::int64_t stride, std::int64_t width, std::int64_t begin,
                    std::int64_t end) {
    const std::int64_t bytes = width * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t j = begin; j < end; ++j) {
      const auto* row = reinterpret_cast<const std::byte*>(rows + j * stride);
      for (std::int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at, 0, 2);
    }
  }

  A scale_;
  const SimdKernels& simd_;
  const RowKernels<A, Kept>& rows_;
  Heads<const X> q_;
  KeptHeads<Kept> k_, v_;
  Heads<X> o_;
  std::optional<Rows<A>> lse_;
  std::int64_t group_;
};

/// Returns how many kv heads a task takes: as many as leave each thread some tasks.
std::int64_t heads_of_task(std::int64_t segments, std::int64_t kv_heads, int threads) {
  const std::int64_t tasks = (kTasksEach * threads + segments - 1) / segments;  // of a segment
  return std::clamp<std::int64_t>(kv_heads / std::min(tasks, kv_heads), 1, kMostHeads);
}

template <Compute X, class Kept>
void attend(const Context& context, const SingleArguments<Kept>& op,
            const std::vector<Segment>& segments) {
  if (segments.empty()) return;
  const auto count = static_cast<std::int64_t>(segments.size());
  const std::int64_t heads = heads_of_task(count, op.kv_heads, context.pool.threads());
  const std::int64_t tasks = (op.kv_heads + heads - 1) / heads;  // of each segment
  const SingleQueries<X, Kept> queries(op, context.simd);
  context.pool.parallel_for(count * tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % tasks * heads;
      queries.run(segments[static_cast<std::size_t>(i / tasks)], first,
                  std::min(first + heads, op.kv_heads));
    }
  });
}

}  // namespace

void attend_single_queries(const Context& context, const AttentionForward& op,
                           const std::vector<Segment>& segments) {
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    attend<X, X>(context,
                 {.q = op.q,
                  .k = {Heads<const X>(op.k)},
                  .v = {Heads<const X>(op.v)},
                  .o = op.o,
                  .lse = op.lse,
                  .kv_heads = op.k.shape[1],
                  .scale = op.scale},
                 segments);
  });
}

void attend_single_queries(const Context& context, const AttendInt8Kv& op,
                           const std::vector<Segment>& segments) {
  const auto kept = [](const ConstTensorView& levels, const ConstTensorView& scales) {
    return KeptHeads<std::int8_t>{.heads = Heads<const std::int8_t>(levels),
                                  .scales = scales.as<float>(),
                                  .scale_stride = scales.row_stride};
  };
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    attend<X, std::int8_t>(context,
                           {.q = op.q,
                            .k = kept(op.cache.k, op.cache.k_scale),
                            .v = kept(op.cache.v, op.cache.v_scale),
                            .o = op.o,
                            .lse = {},
                            .kv_heads = op.cache.k.shape[1],
                            .scale = op.scale},
                           segments);
  });
}

}  // namespace strata::cpu
