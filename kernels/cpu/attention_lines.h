// This file has what attention's forward and backward on the CPU have in common; both include it,
// and nobody else. They work row by row: a thread holds the scores of four queries (or, for dk and
// dv, of four keys) and nothing larger. The lines of scratch that it allocates are those of one
// thread.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_segments.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/typed.h"
#include "strata/base/thread_pool.h"

namespace strata::cpu {

inline constexpr std::int64_t kAttentionBlock =
    32;  // queries or keys of one head that are one chunk of parallel work

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

/// Scratch of lines of `width` elements each, LineBlock::kMost or fewer, padded with zeros to whole
/// registers.
template <class A>
class Lines {
 public:
  explicit Lines(std::int64_t width, std::int64_t lines = LineBlock::kMost)
      : padded_((width + LineBlock::kPadding - 1) / LineBlock::kPadding * LineBlock::kPadding),
        data_(static_cast<std::size_t>(lines * padded_)) {}

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

/// Turns dot products into exp(score - max), sets `factor` to 1 / their sum, and returns lse. A
/// query that sees nothing has o = 0 and lse = -infinity.
template <class A>
A softmax(const SimdKernels& simd, A scale, A* scores, std::int64_t count, A& factor) {
  if (count == 0) return -std::numeric_limits<A>::infinity();
  for (std::int64_t j = 0; j < count; ++j) scores[j] *= scale;
  const A top = lane_max(scores, count);
  for (std::int64_t j = 0; j < count; ++j) scores[j] -= top;
  exponentials(simd, scores, count);
  const A sum = lane_sum<A>(count, [=](std::int64_t j) { return scores[j]; });
  factor = 1 / sum;
  return top + std::log(sum);
}

/// Calls run(block, head) for every block of queries and every head, in parallel. It returns when
/// all calls have.
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

}  // namespace strata::cpu
