// This file has registers of the instruction set that it is compiled for (AVX-512, AVX2 or plain
// scalars), and scalar helpers without library calls; simd.h says why. tile.h, rows.h, exp.h,
// softmax.h and adamw.h are written against VectorF32 and VectorF64. fma, sums and conversions give
// the same bits in all three.

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
constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
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
inline float top_of(__m256 x) {
  const __m128 two = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 one = _mm_max_ps(two, _mm_movehl_ps(two, two));
  return _mm_cvtss_f32(_mm_max_ss(one, _mm_shuffle_ps(one, one, 1)));
}
inline double top_of(__m256d x) {
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}
#endif

#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // 12 x 2 accumulators, 2 columns of b, 1 broadcast: 27 of 32
constexpr int kTileVectors = 2;
constexpr int kMostLines = 8;  // lines of attention that are multiplied with the same registers
constexpr int kMostSums = 24;  // registers that they are added up in

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
  static Register subtract(Register a, Register b) { return _mm512_sub_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm512_mul_ps(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  /// Returns a where a > b, else b.
  static Register largest(Register a, Register b) { return _mm512_max_ps(a, b); }
  /// Returns the first lanes of x, so many, and the other ones of `others`.
  static Register first_lanes(Register x, int count, Register others) {
    const auto mask = static_cast<__mmask16>((1u << smaller(count, kWidth)) - 1);
    return _mm512_mask_blend_ps(mask, others, x);
  }
  /// Returns a where a < b, else b.
  static Register smallest(Register a, Register b) { return _mm512_min_ps(a, b); }
  /// Returns x 2^n, where n is how much greater the bits of `shifted` are than those of `zero`.
  static Register times_power(Register x, Register shifted, Register zero) {
    const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(zero));
    const __m512i half = _mm512_srai_epi32(_mm512_add_epi32(n, _mm512_srli_epi32(n, 31)), 1);
    const auto power = [](__m512i e) {
      return _mm512_castsi512_ps(
          _mm512_slli_epi32(_mm512_add_epi32(e, _mm512_set1_epi32(127)), 23));
    };
    return multiply(multiply(x, power(half)), power(_mm512_sub_epi32(n, half)));
  }
  static float sum(Register x) {
    return tree_sum(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
  }
  /// Returns the largest lane.
  static float top(Register x) {
    return top_of(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
  }
  /// Stores elements [begin, end).
  static void store_some(float* p, Register x, int begin, int end) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << end) - (1u << begin)), x);
  }
  static constexpr int kDots = 16;  ///< dot products whose lanes are added up together
  /// Adds the halves of each piece of 2 kHalf lanes onto each other. The sums of a's pieces come
  /// out in the first halves of pieces, those of b's in the second ones.
  template <int kHalf>
  static Register add_halves(Register a, Register b) {
    const __m512d wide_a = _mm512_castps_pd(a);
    const __m512d wide_b = _mm512_castps_pd(b);
    if constexpr (kHalf == 8) {
      return add(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
    } else if constexpr (kHalf == 4) {
      const __m512i others = _mm512_set_epi64(13, 12, 7, 6, 9, 8, 3, 2);
      return add(_mm512_mask_blend_ps(0xf0f0, a, b),
                 _mm512_castpd_ps(_mm512_permutex2var_pd(wide_a, others, wide_b)));
    } else if constexpr (kHalf == 2) {
      return add(_mm512_mask_blend_ps(0xcccc, a, b),
                 _mm512_castpd_ps(_mm512_shuffle_pd(wide_a, wide_b, 0x55)));
    } else {
      return add(_mm512_mask_moveldup_ps(a, 0xaaaa, b), _mm512_mask_movehdup_ps(b, 0x5555, a));
    }
  }
  /// Returns lane order[i] of x as lane i.
  static Register permute(Register x, const std::int32_t* order) {
    return _mm512_permutexvar_ps(_mm512_loadu_si512(order), x);
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
  static Register subtract(Register a, Register b) { return _mm512_sub_pd(a, b); }
  static Register multiply(Register a, Register b) { return _mm512_mul_pd(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_pd(a, b, c); }
  static Register largest(Register a, Register b) { return _mm512_max_pd(a, b); }
  static Register first_lanes(Register x, int count, Register others) {
    const auto mask = static_cast<__mmask8>((1u << smaller(count, kWidth)) - 1);
    return _mm512_mask_blend_pd(mask, others, x);
  }
  static double top(Register x) {
    return top_of(_mm256_max_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1)));
  }
  static constexpr int kDots = 1;
  static double sum(Register x) {
    return tree_sum(_mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1)));
  }
};
#elif defined(__AVX2__)
constexpr int kTileRows = 6;  // 6 x 2 accumulators, 2 columns of b, 1 broadcast: 15 of 16
constexpr int kTileVectors = 2;
constexpr int kMostLines = 4;
constexpr int kMostSums = 12;

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
  static Register subtract(Register a, Register b) { return _mm256_sub_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm256_mul_ps(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register largest(Register a, Register b) { return _mm256_max_ps(a, b); }
  static Register first_lanes(Register x, int count, Register others) {
    const __m256i at = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), at);
    return _mm256_blendv_ps(others, x, _mm256_castsi256_ps(mask));
  }
  static Register smallest(Register a, Register b) { return _mm256_min_ps(a, b); }
  static Register times_power(Register x, Register shifted, Register zero) {
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(zero));
    const __m256i half = _mm256_srai_epi32(_mm256_add_epi32(n, _mm256_srli_epi32(n, 31)), 1);
    const auto power = [](__m256i e) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    return multiply(multiply(x, power(half)), power(_mm256_sub_epi32(n, half)));
  }
  static float sum(Register x) { return tree_sum(x); }
  static float top(Register x) { return top_of(x); }
  static void store_some(float* p, Register x, int begin, int end) {
    const __m256i at = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), at);
    const __m256i under_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), at);
    _mm256_maskstore_ps(p, _mm256_andnot_si256(below, under_end), x);
  }
  static constexpr int kDots = 8;
  template <int kHalf>
  static Register add_halves(Register a, Register b) {
    if constexpr (kHalf == 4) {
      return add(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
    } else if constexpr (kHalf == 2) {
      const __m256d others = _mm256_shuffle_pd(_mm256_castps_pd(a), _mm256_castps_pd(b), 0x5);
      return add(_mm256_blend_ps(a, b, 0xcc), _mm256_castpd_ps(others));
    } else {
      return add(_mm256_blend_ps(a, _mm256_moveldup_ps(b), 0xaa),
                 _mm256_blend_ps(_mm256_movehdup_ps(a), b, 0xaa));
    }
  }
  static Register permute(Register x, const std::int32_t* order) {
    return _mm256_permutevar8x32_ps(x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(order)));
  }
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
  static Register subtract(Register a, Register b) { return _mm256_sub_pd(a, b); }
  static Register multiply(Register a, Register b) { return _mm256_mul_pd(a, b); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_pd(a, b, c); }
  static Register largest(Register a, Register b) { return _mm256_max_pd(a, b); }
  static Register first_lanes(Register x, int count, Register others) {
    const __m256i at = _mm256_set_epi64x(3, 2, 1, 0);
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), at);
    return _mm256_blendv_pd(others, x, _mm256_castsi256_pd(mask));
  }
  static double top(Register x) { return top_of(x); }
  static constexpr int kDots = 1;
  static double sum(Register x) { return tree_sum(x); }
};
#else
constexpr int kTileRows = 4;
constexpr int kTileVectors = 4;
constexpr int kMostLines = 4;
constexpr int kMostSums = 8;

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
  static Register subtract(Register a, Register b) { return a - b; }
  static Register multiply(Register a, Register b) { return a * b; }
  static Register fma(Register a, Register b, Register c) { return fused(a, b, c); }
  static Register largest(Register a, Register b) { return a > b ? a : b; }
  static Register first_lanes(Register x, int count, Register others) {
    return count > 0 ? x : others;
  }
  static Register smallest(Register a, Register b) { return a < b ? a : b; }
  static Register times_power(Register x, Register shifted, Register zero) {
    const std::int32_t n =
        __builtin_bit_cast(std::int32_t, shifted) - __builtin_bit_cast(std::int32_t, zero);
    const std::int32_t half = n / 2;
    const auto power = [](std::int32_t e) {
      return __builtin_bit_cast(float, static_cast<std::uint32_t>(e + 127) << 23);
    };
    return x * power(half) * power(n - half);
  }
  static T top(Register x) { return x; }
  static constexpr int kDots = 1;
  static T sum(Register x) { return x; }
};
using VectorF32 = VectorOfOne<float>;
using VectorF64 = VectorOfOne<double>;
#endif

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

/// Adds the upper half of so many registers onto the lower one until one is left.
template <class V, int kCount>
[[gnu::always_inline]] inline typename V::Register add_registers(typename V::Register* x) {
#pragma GCC unroll 4
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int r = 0; r < half; ++r) x[r] = V::add(x[r], x[r + half]);
  }
  return x[0];
}

}  // namespace
}  // namespace strata::cpu
