// This file declares the inner loops that are compiled once per instruction set and chosen at run
// time; Context hands them to every CPU operator. Every variant gives the same bits: each output
// element is one chain of IEEE operations in a written order, with fma exactly where the source
// says fma.
//
// Code compiled for AVX must not leak into the rest of the program: the linker keeps one copy of an
// inline function, and if that were the AVX copy, older processors would fault. So the headers that
// the variants include (tile.h, rows.h, exp.h, softmax.h, adamw*.h, momentum.h, vector.h) define
// everything in an anonymous namespace and call no inline function of another header.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"

namespace strata::cpu {

/// multiply computes acc[r][c] += sum over k of a[k][r] * b[k][c], one fma chain per element in
/// ascending k. a is [k, rows] and b is [k, columns], both packed; acc has rows of `columns`
/// elements, `stride` apart.
template <class A>
struct TileKernel {
  int rows = 0;
  int columns = 0;
  void (*multiply)(const A* a, const A* b, std::int64_t k, A* acc, std::int64_t stride) = nullptr;
};

/// Up to kMost lines (queries, or keys in the column pass of backward) that are multiplied with the
/// same rows, so that a row is read once for several of them. Line l takes rows [begin[l], end[l]).
struct LineBlock {
  static constexpr int kMost = 8;
  static constexpr int kPadding = 16;  ///< lines of scratch are a multiple of it, zeros at the end
  int lines = 0;
  std::int64_t begin[kMost] = {};
  std::int64_t end[kMost] = {};
  std::int64_t width = 0;   ///< elements of a row
  std::int64_t stride = 0;  ///< elements from one row to the next
  std::int64_t ahead = 0;   ///< elements from a row to one that is needed soon; 0: none is
  /// The scales of int8 rows from begin[0] on, up to a multiple of kPadding; then all lines take
  /// the same rows.
  const float* scales = nullptr;
  std::int64_t padded = 0;  ///< elements from one line to the next: width, padded
  std::int64_t scores = 0;  ///< elements from one line's scores to the next line's
};

/// Row loops of attention. The result of a line does not depend on the others. Where rows are int8,
/// dots and weights are multiplied with the rows' scales.
template <class A, class X>
struct RowKernels {
  /// Computes scores[l][j] = dot(lines[l], rows[j]). It may read rows that some other line takes.
  void (*dots)(const LineBlock& block, const A* lines, const X* rows, A* scores) = nullptr;
  /// Adds weights[l][j] * rows[j] to sums[l], an fma chain in ascending j.
  void (*weighted_sums)(const LineBlock& block, const A* weights, const X* rows, A* sums) = nullptr;
};

/// The dot products of a query, which become weights: with s_j = scale scores[j],
/// scores[j] = exp(s_j - max s).
template <class A>
struct SoftmaxRow {
  A* scores = nullptr;     ///< with room for a multiple of LineBlock::kPadding
  std::int64_t count = 0;  ///< at least 1
  A scale = 1;
  A top = 0;  ///< out: max s
  A sum = 0;  ///< out: of exp(s_j - max s)
};

/// The scalars of strata::AdamW, rounded to A. strata::Momentum has no eps and no corrections.
template <class A>
struct AdamWFactors {
  A lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  A correction1, correction2, grad_factor, lr_decay;
};

/// Elements [begin, end) of an update. Pointers are to element 0 of the tensors. With moments
/// that are rounded the range lies in one block of 4096 elements; with those in 8 bits `begin` is a
/// multiple of kMomentBlock.
struct AdamWRange {
  DType weight_dtype = DType::kF32;
  DType grad_dtype = DType::kF32;
  DType moment_dtype = DType::kF32;
  void* weight = nullptr;
  std::int16_t* low = nullptr;
  void* m = nullptr;
  void* v = nullptr;              ///< null if there is one moment
  std::uint8_t* scale = nullptr;  ///< of 8-bit moments, two for kMomentBlock elements
  const void* grad = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t rounding_key = 0;   ///< the key of the block, for moments that are rounded
  std::uint64_t weight_key = 0;     ///< the same for bf16 weights without low halves
  std::int64_t rounding_begin = 0;  ///< the place of `begin` in the block
  AdamWFactors<double> f64;
  AdamWFactors<float> f32;
};

/// One instruction set's variants.
struct SimdKernels {
  std::string_view name;  ///< "portable", "avx2", "avx512"
  TileKernel<float> tile_f32;
  TileKernel<double> tile_f64;
  RowKernels<double, double> rows_f64;
  RowKernels<float, float> rows_f32;
  RowKernels<float, Bf16> rows_bf16;
  RowKernels<double, std::int8_t> rows_i8_f64;
  RowKernels<float, std::int8_t> rows_i8_f32;
  void (*exp_f32)(float* x, std::int64_t count) = nullptr;  ///< x = exp(x), in place
  void (*exp_f64)(double* x, std::int64_t count) = nullptr;
  void (*softmax_f32)(SoftmaxRow<float>&) = nullptr;
  void (*softmax_f64)(SoftmaxRow<double>&) = nullptr;
  /// Each updates the range; returns true if every new weight is finite.
  bool (*adamw)(const AdamWRange&) = nullptr;
  bool (*lion)(const AdamWRange&) = nullptr;
  bool (*sgd)(const AdamWRange&) = nullptr;
  bool (*nesterov)(const AdamWRange&) = nullptr;
};

/// Returns the variants that this processor can run, slowest first; there is always one.
[[nodiscard]] std::vector<const SimdKernels*> usable_simd();

extern const SimdKernels kPortable;
extern const SimdKernels kAvx2;    ///< x86-64 builds only
extern const SimdKernels kAvx512;  ///< x86-64 builds only

}  // namespace strata::cpu
