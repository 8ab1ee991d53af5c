// This file has the innermost loop of the matrix product: a tile of accumulators that stays in
// registers while k runs. The variants include it and offer it as TileKernel (simd.h); matmul.cpp
// calls it with packed operands. Every element is one fma chain in ascending k.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

template <class V>
void multiply_tile(const typename V::Scalar* a, const typename V::Scalar* b, std::int64_t k,
                   typename V::Scalar* acc, std::int64_t stride) {
  typename V::Register sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kTileVectors; ++c) sum[r][c] = V::load(acc + r * stride + c * V::kWidth);
  }
  for (std::int64_t i = 0; i < k; ++i) {
    typename V::Register column[kTileVectors];
#pragma GCC unroll 16
    for (int c = 0; c < kTileVectors; ++c) column[c] = V::load(b + c * V::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const typename V::Register row = V::broadcast(a[r]);
#pragma GCC unroll 16
      for (int c = 0; c < kTileVectors; ++c) sum[r][c] = V::fma(row, column[c], sum[r][c]);
    }
    a += kTileRows;
    b += kTileVectors * V::kWidth;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kTileVectors; ++c) V::store(acc + r * stride + c * V::kWidth, sum[r][c]);
  }
}

template <class V>
constexpr TileKernel<typename V::Scalar> tile_kernel() {
  return {kTileRows, kTileVectors * V::kWidth, multiply_tile<V>};
}

}  // namespace
}  // namespace strata::cpu
