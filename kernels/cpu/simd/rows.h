// This file offers dot products and weighted sums of rows, for attention, as RowKernels (simd.h);
// the variants include it. Several lines are multiplied with a register of a row, so that it is
// loaded and widened once for them.

#pragma once

#include "kernels/cpu/simd/row_dots.h"
#include "kernels/cpu/simd/row_sums.h"
#include "kernels/cpu/simd/simd.h"

namespace strata::cpu {
namespace {

template <class A, class X>
constexpr RowKernels<A, X> row_kernels() {
  return {dots<A, X>, kScaled<X> ? scaled_sums<A, X> : weighted_sums<A, X>};
}

}  // namespace
}  // namespace strata::cpu
