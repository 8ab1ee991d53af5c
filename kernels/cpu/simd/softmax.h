// This file turns the dot products of a query into weights, for attention; the variants include it.
// The sum is written out as interleaved lanes and a fixed tree, so it has the same bits at every
// register width.

#pragma once

#include "kernels/cpu/simd/exp.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

constexpr int kSoftmaxLanes = LineBlock::kPadding;

constexpr std::int64_t whole_lanes(std::int64_t count) {
  return (count + kSoftmaxLanes - 1) / kSoftmaxLanes * kSoftmaxLanes;
}

/// Multiplies so many scores, 1 or more, with a factor, fills the lanes behind them with -infinity,
/// and returns the largest. That one is the same in any order.
template <class A>
A scale_scores(A* scores, std::int64_t count, A scale) {
  using V = typename VectorOf<A>::Type;
  constexpr int kTops = 4;  // so that few wait for the one before
  const auto factor = V::broadcast(scale);
  typename V::Register top[kTops];
  for (auto& t : top) t = V::broadcast(scores[0] * scale);
  std::int64_t j = 0;
  for (; j + kTops * V::kWidth <= count; j += kTops * V::kWidth) {
#pragma GCC unroll 4
    for (int t = 0; t < kTops; ++t) {
      const auto x = V::multiply(V::load(scores + j + t * V::kWidth), factor);
      V::store(scores + j + t * V::kWidth, x);
      top[t] = V::largest(x, top[t]);
    }
  }
  const auto nothing = V::broadcast(-static_cast<A>(__builtin_inf()));
  for (; j < whole_lanes(count); j += V::kWidth) {
    const auto x = V::multiply(V::load(scores + j), factor);
    const auto kept = V::first_lanes(x, static_cast<int>(larger(count - j, 0)), nothing);
    V::store(scores + j, kept);
    top[0] = V::largest(kept, top[0]);
  }
#pragma GCC unroll 4
  for (int t = 1; t < kTops; ++t) top[0] = V::largest(top[t], top[0]);
  return V::top(top[0]);
}

/// Computes SoftmaxRow. The sum has interleaved lanes and then a fixed tree; lanes behind the
/// scores add zeros.
template <class A>
void softmax(SoftmaxRow<A>& row) {
  using V = typename VectorOf<A>::Type;
  constexpr int kRegisters = kSoftmaxLanes / V::kWidth;
  row.top = scale_scores(row.scores, row.count, row.scale);
  const auto top = V::broadcast(row.top);
  typename V::Register sum[kRegisters];
  for (auto& lanes : sum) lanes = V::broadcast(0);
  for (std::int64_t j = 0; j < whole_lanes(row.count); j += kSoftmaxLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < kRegisters; ++r) {
      A* x = row.scores + j + r * V::kWidth;
      const auto power = exp_of(V::subtract(V::load(x), top));
      V::store(x, power);
      sum[r] = V::add(sum[r], power);
    }
  }
  row.sum = V::sum(add_registers<V, kRegisters>(sum));
}

}  // namespace
}  // namespace strata::cpu
