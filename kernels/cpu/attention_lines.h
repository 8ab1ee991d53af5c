// This file has what attention's operators on the CPU have in common; they include it, and nobody
// else. Forward and backward work row by row: a thread holds the scores of four queries (or, for dk
// and dv, of four keys) and nothing larger. Single queries are in single_queries.h.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cpu/attention_segments.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/typed.h"
#include "strata/base/thread_pool.h"

namespace strata::cpu {

inline constexpr std::int64_t kAttentionBlock =
    32;  // queries or keys of one head that are one chunk of parallel work

/// Lines that are multiplied together where each takes rows of its own. More would differ in more.
inline constexpr std::int64_t kBlockLines = 4;

/// Returns the loops over rows of X, or over int8 ones that X is computed with.
template <Compute X, class Kept = X>
const RowKernels<Accumulator<X>, Kept>& rows_of(const SimdKernels& simd) {
  if constexpr (std::same_as<Kept, std::int8_t>) {
    if constexpr (std::same_as<X, double>) {
      return simd.rows_i8_f64;
    } else {
      return simd.rows_i8_f32;
    }
  } else if constexpr (std::same_as<X, double>) {
    return simd.rows_f64;
  } else if constexpr (std::same_as<X, float>) {
    return simd.rows_f32;
  } else {
    return simd.rows_bf16;
  }
}

/// A tensor [tokens, heads, head dim]: at(token, head) points to the first element of a head.
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

/// Scratch of lines of `width` elements each, padded to whole registers and aligned as the lines of
/// a processor's caches are. They lie an odd number of paddings apart, so that equal places of all
/// lines do not compete for the same places of a cache. Nothing is written to it at first.
template <class A>
class Lines {
 public:
  explicit Lines(std::int64_t width, std::int64_t lines = kBlockLines)
      : padded_(((width + LineBlock::kPadding - 1) / LineBlock::kPadding | 1) *
                LineBlock::kPadding),
        lines_(lines),
        data_(std::make_unique_for_overwrite<A[]>(static_cast<std::size_t>(lines * padded_) +
                                                  kAlignment / kSize)) {
    const auto past = reinterpret_cast<std::uintptr_t>(data_.get()) % kAlignment;
    first_ = data_.get() + (past == 0 ? 0 : (kAlignment - past) / kSize);
  }

  [[nodiscard]] A* data() { return first_; }
  [[nodiscard]] A* operator[](std::int64_t line) { return first_ + line * padded_; }
  [[nodiscard]] std::int64_t padded() const { return padded_; }
  void clear() { std::fill_n(first_, lines_ * padded_, A{0}); }
  /// Fills a line, with zeros at its end.
  template <Compute X>
  void load(std::int64_t line, const X* from, std::int64_t width) {
    A* to = (*this)[line];
    for (std::int64_t d = 0; d < width; ++d) to[d] = static_cast<A>(from[d]);
    std::fill(to + width, to + padded_, A{0});
  }
  template <Compute X>
  void store(std::int64_t line, A factor, std::int64_t width, X* to) {
    for (std::int64_t d = 0; d < width; ++d) to[d] = X((*this)[line][d] * factor);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kSize = sizeof(A);

  std::int64_t padded_;
  std::int64_t lines_;
  std::unique_ptr<A[]> data_;
  A* first_;  ///< the first that is aligned
};

inline void compute(const SimdKernels& simd, SoftmaxRow<float>& row) { simd.softmax_f32(row); }
inline void compute(const SimdKernels& simd, SoftmaxRow<double>& row) { simd.softmax_f64(row); }

/// Turns dots into capped scores.
template <class A>
void cap_scores(A* scores, std::int64_t count, A scale, A cap) {
  for (std::int64_t j = 0; j < count; ++j) scores[j] = cap * std::tanh(scale * scores[j] / cap);
}

/// Computes the row, sets `factor` to 1 / its sum, and returns lse. A query that sees nothing has
/// o = 0 and lse = -infinity.
template <class A>
A softmax(const SimdKernels& simd, SoftmaxRow<A> row, A& factor) {
  if (row.count == 0) return -std::numeric_limits<A>::infinity();
  compute(simd, row);
  factor = 1 / row.sum;
  return row.top + std::log(row.sum);
}

/// Does so with scores that are capped before, unless `cap` is 0.
template <class A>
A softmax(const SimdKernels& simd, SoftmaxRow<A> row, A cap, A& factor) {
  if (cap != 0) {
    cap_scores(row.scores, row.count, row.scale, cap);
    row.scale = 1;
  }
  return softmax(simd, row, factor);
}

/// Returns how many scores a line of kBlockLines queries has room for, from the first key on that
/// one of them sees. Each begins at its own first key, from which softmax writes whole lanes.
inline std::int64_t score_room(const Segment& s) {
  if (s.window >= s.k_length) return s.k_length;
  return std::min(s.k_length, s.window + kBlockLines) + LineBlock::kPadding;
}

/// Calls run(block, head) for every block of queries and every one of `heads`, of `width` elements,
/// in parallel. It returns when all calls have.
template <class F>
void for_query_blocks(ThreadPool& pool, const std::vector<QueryBlock>& blocks, std::int64_t heads,
                      std::int64_t width, const F& run) {
  const auto count = static_cast<std::int64_t>(blocks.size());
  std::int64_t most = 0;  // scores of a block
  for (const QueryBlock& b : blocks) {
    const std::int64_t keys = b.segment.visible(b.end - 1) - b.segment.first_key(b.begin);
    most = std::max(most, (b.end - b.begin) * keys);
  }
  constexpr std::int64_t kPasses = 2;  // at least: over keys and over values
  const std::int64_t grain = grain_for(kPasses * most * width / kProductsAtOnce);
  pool.parallel_for(count * heads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      run(blocks[static_cast<std::size_t>(i % count)], i / count);
    }
  });
}

}  // namespace strata::cpu
