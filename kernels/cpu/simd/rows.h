#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

// Plain loops for the compiler to vectorise, in an order of additions that does not depend on the
// width of the machine's registers.

namespace strata::cpu {
namespace {

template <class A>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type = VectorF32;
};
template <>
struct VectorOf<double> {
  using Type = VectorF64;
};

/// kLanes partial sums, added in a fixed tree: the same additions at every register width.
template <class A>
struct LaneSums {
  using V = typename VectorOf<A>::Type;
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = kLanes / V::kWidth;
  typename V::Register lanes[kRegisters];

  LaneSums() {
    for (int r = 0; r < kRegisters; ++r) lanes[r] = V::broadcast(0);
  }
  template <class X>
  void add_products(const A* a, const X* b) {
    for (int r = 0; r < kRegisters; ++r) {
      const int at = r * V::kWidth;
      lanes[r] = V::add(lanes[r], V::multiply(V::load(a + at), V::load(b + at)));
    }
  }
  A total() {
    for (int half = kRegisters / 2; half > 0; half /= 2) {
      for (int r = 0; r < half; ++r) lanes[r] = V::add(lanes[r], lanes[r + half]);
    }
    return V::sum(lanes[0]);
  }
};

template <class A, class X>
void dots(const A* query, const X* rows, std::int64_t stride, std::int64_t count,
          std::int64_t width, A scale, A* scores) {
  constexpr int kLanes = LaneSums<A>::kLanes;
  const std::int64_t whole = width / kLanes * kLanes;
  const std::int64_t rest = width - whole;
  A query_rest[kLanes] = {};  // zeros behind the end add nothing
  for (std::int64_t l = 0; l < rest; ++l) query_rest[l] = query[whole + l];
  for (std::int64_t j = 0; j < count; ++j) {
    const X* row = rows + j * stride;
    LaneSums<A> sums;
    for (std::int64_t d = 0; d < whole; d += kLanes) sums.add_products(query + d, row + d);
    if (rest > 0) {
      A row_rest[kLanes] = {};
      for (std::int64_t l = 0; l < rest; ++l) row_rest[l] = widen(row[whole + l]);
      sums.add_products(query_rest, row_rest);
    }
    scores[j] = scale * sums.total();
  }
}

template <class A, class X>
void weighted_sum(const A* weights, const X* rows, std::int64_t stride, std::int64_t count,
                  std::int64_t width, A* __restrict sum) {
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {  // four rows at a time: a quarter of the traffic of `sum`
    const X* r0 = rows + j * stride;
    const X* r1 = r0 + stride;
    const X* r2 = r1 + stride;
    const X* r3 = r2 + stride;
    const A w0 = weights[j], w1 = weights[j + 1], w2 = weights[j + 2], w3 = weights[j + 3];
    for (std::int64_t d = 0; d < width; ++d) {
      A s = sum[d] + w0 * widen(r0[d]);
      s += w1 * widen(r1[d]);
      s += w2 * widen(r2[d]);
      sum[d] = s + w3 * widen(r3[d]);
    }
  }
  for (; j < count; ++j) {
    const X* row = rows + j * stride;
    for (std::int64_t d = 0; d < width; ++d) sum[d] += weights[j] * widen(row[d]);
  }
}

template <class A, class X>
constexpr RowKernels<A, X> row_kernels() {
  return {dots<A, X>, weighted_sum<A, X>};
}

}  // namespace
}  // namespace strata::cpu
