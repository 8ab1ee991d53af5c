// This file has registers of the instruction set that it is compiled for (AVX-512, AVX2 or plain
// scalars), and scalar helpers without library calls; simd.h says why. tile.h, rows.h, exp.h and
// adamw.h are written against VectorF32 and VectorF64. fma, sums and conversions give the same bits
// in all three.

#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "strata/base/dtype.h"

namespace strata::cpu {
namespace {

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

inline float widen(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(std::int8_t x) { return static_cast<float>(x); }

#if defined(__AVX2__)
/// Returns ((x0 + x4) + (x2 + x6)) + ((x1 + x5) + (x3 + x7)), and of other widths the like: halves
/// are added onto halves.
inline float tree_sum(__m128 x) {
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
inline float tree_sum(__m256 x) {
  return tree_sum(_mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}
inline double tree_sum(__m128d x) { return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x))); }
inline double tree_sum(__m256d x) {
  return tree_sum(_mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1)));
}
#endif

#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // 12 x 2 accumulators, 2 columns of b, 1 broadcast: 27 of 32
constexpr int kTileVectors = 2;

struct VectorF32 {
  using Scalar = float;
  using Register = __m512;
  static constexpr int kWidth = 16;
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static Register load(const Bf16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static Register load(const std::int8_t* p) {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(levels));
  }
  static void store(float* p, Register x) { _mm512_storeu_ps(p, x); }
  static Register broadcast(float x) { return _mm512_set1_ps(x); }
  static Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm512_mul_ps(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static float sum(Register x) {
    return tree_sum(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
  }
};

struct VectorF64 {
  using Scalar = double;
  using Register = __m512d;
  static constexpr int kWidth = 8;
  static Register load(const double* p) { return _mm512_loadu_pd(p); }
  static Register load(const std::int8_t* p) {
    const __m128i levels = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(levels));
  }
  static void store(double* p, Register x) { _mm512_storeu_pd(p, x); }
  static Register broadcast(double x) { return _mm512_set1_pd(x); }
  static Register add(Register a, Register b) { return _mm512_add_pd(a, b); }
  static Register multiply(Register a, Register b) { return _mm512_mul_pd(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_pd(a, b, c); }
  static double sum(Register x) {
    return tree_sum(_mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1)));
  }
};
#elif defined(__AVX2__)
constexpr int kTileRows = 6;  // 6 x 2 accumulators, 2 columns of b, 1 broadcast: 15 of 16
constexpr int kTileVectors = 2;

struct VectorF32 {
  using Scalar = float;
  using Register = __m256;
  static constexpr int kWidth = 8;
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static Register load(const Bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Register load(const std::int8_t* p) {
    const __m128i levels = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels));
  }
  static void store(float* p, Register x) { _mm256_storeu_ps(p, x); }
  static Register broadcast(float x) { return _mm256_set1_ps(x); }
  static Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm256_mul_ps(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static float sum(Register x) { return tree_sum(x); }
};

struct VectorF64 {
  using Scalar = double;
  using Register = __m256d;
  static constexpr int kWidth = 4;
  static Register load(const double* p) { return _mm256_loadu_pd(p); }
  static Register load(const std::int8_t* p) {
    return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_loadu_si32(p)));
  }
  static void store(double* p, Register x) { _mm256_storeu_pd(p, x); }
  static Register broadcast(double x) { return _mm256_set1_pd(x); }
  static Register add(Register a, Register b) { return _mm256_add_pd(a, b); }
  static Register multiply(Register a, Register b) { return _mm256_mul_pd(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_pd(a, b, c); }
  static double sum(Register x) { return tree_sum(x); }
};
#else
constexpr int kTileRows = 4;
constexpr int kTileVectors = 4;

/// A register of one scalar: it is correct everywhere, and makes exactly the chain of the vector
/// variants.
template <class T>
struct VectorOfOne {
  using Scalar = T;
  using Register = T;
  static constexpr int kWidth = 1;
  template <class X>
  static Register load(const X* p) {
    return widen(*p);
  }
  static void store(T* p, Register x) { *p = x; }
  static Register broadcast(T x) { return x; }
  static Register add(Register a, Register b) { return a + b; }
  static Register multiply(Register a, Register b) { return a * b; }
  static Register fma(Register a, Register b, Register c) { return fused(a, b, c); }
  static T sum(Register x) { return x; }
};
using VectorF32 = VectorOfOne<float>;
using VectorF64 = VectorOfOne<double>;
#endif

}  // namespace
}  // namespace strata::cpu
