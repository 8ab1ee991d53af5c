// This file computes attention of segments with one query each, for some kv heads of one segment at
// a time; attention_single.cpp includes it and divides the work. All the time goes to reading keys
// and values. They are read for several heads that lie side by side in memory, some keys at a time
// and the next ones ahead, so that memory sees long runs. Each head's sums are those of
// attention_forward.cpp, in the same order. Keys and values may be int8: then dots are multiplied
// with the keys' scales, and weights with the values'.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/attention_lines.h"

namespace strata::cpu {

/// Keys that all heads of a task see before the next ones.
inline constexpr std::int64_t kKeyRun = 16;
/// Values likewise: a run costs a load and a store of sums.
inline constexpr std::int64_t kValueRun = 32;
/// Columns of values that a task takes at least.
inline constexpr std::int64_t kColumns = 64;
/// A thread has at least so many tasks, if there are as many heads.
inline constexpr std::int64_t kTasksEach = 4;

/// From `begin` to before `end`.
struct IndexRange {
  std::int64_t begin, end;
};

/// Returns how many parts of so many elements there are.
constexpr std::int64_t parts(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// Query heads of one kv head, which are multiplied with its keys together.
struct HeadBlock {
  std::int64_t kv_head;
  std::int64_t line;  ///< of the first query head, in the scratch
  LineBlock rows;
};

/// What the query heads of a task need, a line for each.
template <class A>
struct TaskScratch {
  TaskScratch(std::int64_t width, std::int64_t keys, std::int64_t lines)
      : query(width, lines),
        sum(width, lines),
        scores(keys, lines),
        factors(static_cast<std::size_t>(lines)) {}

  IndexRange heads{};  ///< kv heads
  Lines<A> query, sum, scores;
  std::vector<A> factors;  ///< of sums
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
  double score_cap;
};

/// `Kept` is X, or int8.
template <Compute X, class Kept>
class SingleQueries {
  using A = Accumulator<X>;

 public:
  SingleQueries(const SingleArguments<Kept>& op, const SimdKernels& simd)
      : scale_(static_cast<A>(op.scale)),
        cap_(static_cast<A>(op.score_cap)),
        simd_(simd),
        rows_(rows_of<X, Kept>(simd)),
        q_(op.q),
        k_(op.k),
        v_(op.v),
        o_(op.o),
        group_(op.q.shape[1] / op.kv_heads) {
    if (op.lse) lse_.emplace(op.lse);
  }

  /// Makes the scratch of tasks of so many kv heads, and of segments of at most so many keys.
  [[nodiscard]] TaskScratch<A> scratch(std::int64_t kv_heads, std::int64_t keys) const {
    return TaskScratch<A>(q_.width(), keys, kv_heads * group_);
  }

  /// Computes a segment for the query heads of some kv heads.
  void run(const Segment& s, IndexRange heads, TaskScratch<A>& t) const {
    load(s, heads, t);
    multiply(s, {0, s.visible(0)}, t);
    for (std::int64_t head = heads.begin * group_; head < heads.end * group_; ++head) {
      weigh(s, head, t);
    }
    add_up(s, heads, {0, q_.width()}, t);
  }

  /// Computes a segment for all heads, each step in parallel.
  void run_steps(const Segment& s, std::int64_t kv_heads, ThreadPool& pool,
                 TaskScratch<A>& t) const {
    load(s, {0, kv_heads}, t);
    const std::int64_t keys = s.visible(0);
    const std::int64_t runs = parts(keys, kKeyRun);
    pool.parallel_for(runs, parts(runs, kTasksEach * pool.threads()),
                      [&](std::int64_t begin, std::int64_t end) {
                        multiply(s, {begin * kKeyRun, std::min(end * kKeyRun, keys)}, t);
                      });
    pool.parallel_for(kv_heads * group_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) weigh(s, head, t);
    });
    const std::int64_t cuts = std::max<std::int64_t>(1, q_.width() / kColumns);  // of a head
    pool.parallel_for(
        kv_heads * cuts, parts(kv_heads * cuts, pool.threads()),
        [&](std::int64_t begin, std::int64_t end) { add_up_cuts(s, {begin, end}, cuts, t); });
  }

 private:
  /// Fills the lines of queries.
  void load(const Segment& s, IndexRange heads, TaskScratch<A>& t) const {
    t.heads = heads;
    for (std::int64_t line = 0; line < (heads.end - heads.begin) * group_; ++line) {
      t.query.load(line, q_.at(s.q_begin, heads.begin * group_ + line), q_.width());
    }
  }

  /// Computes the scores of some keys for all heads of the scratch.
  void multiply(const Segment& s, IndexRange keys, TaskScratch<A>& t) const {
    std::vector<HeadBlock> blocks = blocks_of(t.heads, k_.heads.stride(), t);
    Lines<float> scales(kKeyRun, t.heads.end - t.heads.begin);
    for_runs(kKeyRun, keys, [&](IndexRange run, bool more) {
      gather_scales(k_, s.k_begin, run, t.heads, scales);
      for (HeadBlock& b : blocks) {
        take(b.rows, run, more);
        b.rows.scales = scales[b.kv_head - t.heads.begin];
        rows_.dots(b.rows, t.query[b.line], k_.heads.at(s.k_begin, b.kv_head), t.scores[b.line]);
      }
    });
  }

  /// Turns the scores of a query head into weights.
  void weigh(const Segment& s, std::int64_t head, TaskScratch<A>& t) const {
    const std::int64_t line = head - t.heads.begin * group_;
    const SoftmaxRow<A> row{.scores = t.scores[line], .count = s.visible(0), .scale = scale_};
    A factor = 0;
    const A lse = softmax(simd_, row, cap_, factor);
    if (lse_) (*lse_)[head][s.q_begin] = lse;
    t.factors[static_cast<std::size_t>(line)] = factor;
  }

  /// Computes some columns of o for some kv heads.
  void add_up(const Segment& s, IndexRange heads, IndexRange columns, TaskScratch<A>& t) const {
    std::vector<HeadBlock> blocks = blocks_of(heads, v_.heads.stride(), t);
    Lines<float> scales(kValueRun, heads.end - heads.begin);
    const std::int64_t width = columns.end - columns.begin;
    for (HeadBlock& b : blocks) {
      b.rows.width = width;
      for (int l = 0; l < b.rows.lines; ++l) {
        std::fill_n(t.sum[b.line + l] + columns.begin, width, A{0});
      }
    }
    for_runs(kValueRun, {0, s.visible(0)}, [&](IndexRange run, bool more) {
      gather_scales(v_, s.k_begin, run, heads, scales);
      for (HeadBlock& b : blocks) {
        take(b.rows, run, more);
        b.rows.scales = scales[b.kv_head - heads.begin];
        rows_.weighted_sums(b.rows, t.scores[b.line],
                            v_.heads.at(s.k_begin, b.kv_head) + columns.begin,
                            t.sum[b.line] + columns.begin);
      }
    });
    for (std::int64_t head = heads.begin * group_; head < heads.end * group_; ++head) {
      const std::int64_t line = head - t.heads.begin * group_;
      const A factor = t.factors[static_cast<std::size_t>(line)];
      const A* sum = t.sum[line];
      X* o = o_.at(s.q_begin, head);
      for (std::int64_t d = columns.begin; d < columns.end; ++d) o[d] = X(sum[d] * factor);
    }
  }

  /// Does so for some of the cuts of all kv heads, `cuts` of each: whole heads together.
  void add_up_cuts(const Segment& s, IndexRange some, std::int64_t cuts, TaskScratch<A>& t) const {
    while (some.begin < some.end) {
      const std::int64_t head = some.begin / cuts;
      const std::int64_t first = some.begin % cuts;
      const std::int64_t whole = first == 0 ? (some.end - some.begin) / cuts : 0;
      const std::int64_t last = whole > 0 ? cuts : std::min(cuts, first + some.end - some.begin);
      const IndexRange columns{first * kColumns, last == cuts ? q_.width() : last * kColumns};
      add_up(s, {head, head + std::max<std::int64_t>(1, whole)}, columns, t);
      some.begin = whole > 0 ? some.begin + whole * cuts : head * cuts + last;
    }
  }

  /// Returns the blocks of some kv heads. Those of a kv head have as many lines as each other, or
  /// one less.
  [[nodiscard]] std::vector<HeadBlock> blocks_of(IndexRange heads, std::int64_t stride,
                                                 const TaskScratch<A>& t) const {
    std::vector<HeadBlock> blocks;
    const std::int64_t count = parts(group_, LineBlock::kMost);  // of a kv head
    for (std::int64_t i = heads.begin * count; i < heads.end * count; ++i) {
      const std::int64_t first = i % count * group_ / count;
      HeadBlock& b = blocks.emplace_back();
      b.kv_head = i / count;
      b.line = (b.kv_head - t.heads.begin) * group_ + first;
      b.rows = {.lines = static_cast<int>((i % count + 1) * group_ / count - first),
                .width = q_.width(),
                .stride = stride,
                .padded = t.query.padded(),
                .scores = t.scores.padded()};
    }
    return blocks;
  }

  /// Calls run(keys, whether more come) for one run of keys and then for the next.
  template <class Run>
  static void for_runs(std::int64_t length, IndexRange keys, const Run& run) {
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += length) {
      run(IndexRange{begin, std::min(begin + length, keys.end)}, begin + length < keys.end);
    }
  }

  /// Has a block take a run of rows, and fetch those of the next run if there is one.
  static void take(LineBlock& rows, IndexRange run, bool more) {
    rows.ahead = more ? (run.end - run.begin) * rows.stride : 0;
    std::fill_n(rows.begin, rows.lines, run.begin);
    std::fill_n(rows.end, rows.lines, run.end);
  }

  /// Copies the scales of a run of rows, if there are any, and fetches as many of those behind
  /// them.
  static void gather_scales(const KeptHeads<Kept>& of, std::int64_t k_begin, IndexRange run,
                            IndexRange heads, Lines<float>& to) {
    if constexpr (KeptHeads<Kept>::kScaled) {
      const float* scale = of.scale(k_begin + run.begin, heads.begin);
      const std::int64_t count = run.end - run.begin;
      for (std::int64_t j = 0; j < count; ++j) {  // they are in a cache line or two
        const float* later = scale + (count + j) * of.scale_stride;
        __builtin_prefetch(later, 0, 2);
        __builtin_prefetch(later + (heads.end - heads.begin), 0, 2);
      }
      for (std::int64_t line = 0; line < heads.end - heads.begin; ++line, ++scale) {
        float* kept = to[line];
        for (std::int64_t j = 0; j < count; ++j) kept[j] = scale[j * of.scale_stride];
      }
    }
  }

  A scale_, cap_;
  const SimdKernels& simd_;
  const RowKernels<A, Kept>& rows_;
  Heads<const X> q_;
  KeptHeads<Kept> k_, v_;
  Heads<X> o_;
  std::optional<Rows<A>> lse_;
  std::int64_t group_;
};

}  // namespace strata::cpu
