#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "strata/base/dtype.h"

// Registers of the instruction set this file is compiled for, and scalar helpers without library
// calls (see simd.h for why).

namespace strata::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // 12 x 2 accumulators, 2 columns of b, 1 broadcast: 27 of 32
constexpr int kTileVectors = 2;

struct VectorF32 {
  using Scalar = float;
  using Register = __m512;
  static constexpr int kWidth = 16;
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Register x) { _mm512_storeu_ps(p, x); }
  static Register broadcast(float x) { return _mm512_set1_ps(x); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
};

struct VectorF64 {
  using Scalar = double;
  using Register = __m512d;
  static constexpr int kWidth = 8;
  static Register load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Register x) { _mm512_storeu_pd(p, x); }
  static Register broadcast(double x) { return _mm512_set1_pd(x); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_pd(a, b, c); }
};
#elif defined(__AVX2__)
constexpr int kTileRows = 6;  // 6 x 2 accumulators, 2 columns of b, 1 broadcast: 15 of 16
constexpr int kTileVectors = 2;

struct VectorF32 {
  using Scalar = float;
  using Register = __m256;
  static constexpr int kWidth = 8;
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Register x) { _mm256_storeu_ps(p, x); }
  static Register broadcast(float x) { return _mm256_set1_ps(x); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
};

struct VectorF64 {
  using Scalar = double;
  using Register = __m256d;
  static constexpr int kWidth = 4;
  static Register load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Register x) { _mm256_storeu_pd(p, x); }
  static Register broadcast(double x) { return _mm256_set1_pd(x); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_pd(a, b, c); }
};
#else
constexpr int kTileRows = 4;
constexpr int kTileVectors = 4;

/// One scalar: correct everywhere, and exactly the chain of the vector variants.
template <class T>
struct VectorOfOne {
  using Scalar = T;
  using Register = T;
  static constexpr int kWidth = 1;
  static Register load(const T* p) { return *p; }
  static void store(T* p, Register x) { *p = x; }
  static Register broadcast(T x) { return x; }
  static Register fma(Register a, Register b, Register c) {
    if constexpr (sizeof(T) == sizeof(double)) {
      return __builtin_fma(a, b, c);
    } else {
      return __builtin_fmaf(a, b, c);
    }
  }
};
using VectorF32 = VectorOfOne<float>;
using VectorF64 = VectorOfOne<double>;
#endif

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

inline float widen(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

}  // namespace
}  // namespace strata::cpu
