#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

// Plain loops for the compiler to vectorise, in an order of additions that does not depend on the
// width of the machine's registers.

namespace strata::cpu {
namespace {

template <class A, class X>
A dot(const A* a, const X* b, std::int64_t width) {
  return lane_sum<A>(width, [=](std::int64_t i) { return a[i] * widen(b[i]); });
}

template <class A, class X>
void dots(const A* query, const X* rows, std::int64_t stride, std::int64_t count,
          std::int64_t width, A scale, A* scores) {
  for (std::int64_t j = 0; j < count; ++j) {
    scores[j] = scale * dot(query, rows + j * stride, width);
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
