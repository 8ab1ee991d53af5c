// This file has the arithmetic of cross-entropy: sums of exponentials relative to a reference,
// which threads, warps, blocks and clusters combine, and the gradients that follow from them.
// cross_entropy.cu says how it is rounded.

#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"

namespace strata::cuda::cross_entropy {

/// How far a thread's numbers may exceed its reference: sums stay below 2^47 V. An exponent is
/// rounded relative to its size, so what is to be right to the last bits must not exceed it.
template <class T>
constexpr float kSlack = 32;
template <>
constexpr float kSlack<float> = 0;
inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr float kLog2eRest = 1.925962989091090e-8f;  ///< what kLog2e lacks
inline constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

/// Returns the largest of some elements.
__device__ __forceinline__ float largest_of(const Packed<float, 4>& x) {
  const auto value = [&](int i) { return __uint_as_float(x.words[i]); };
  return fmaxf(fmaxf(value(0), value(1)), fmaxf(value(2), value(3)));
}
__device__ __forceinline__ float largest_of(const Packed<__nv_bfloat16, 8>& x) {
  const auto larger = [](unsigned a, unsigned b) {  // takes the larger of both halves
    unsigned pair;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
  };
  const unsigned pair = larger(larger(x.words[0], x.words[1]), larger(x.words[2], x.words[3]));
  return fmaxf(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/// The sum of exp(x - reference) over some elements x. Exponents of two are relative to reference
/// log2(e) as rounded, everywhere, so its rounding can be taken out of the result again.
struct Softmax {
  float reference;
  float sum;

  __device__ static Softmax of_nothing() { return {-__builtin_inff(), 0.0f}; }
  /// Returns the factor from sums relative to `from` to sums relative to `to`.
  __device__ static float factor(float from, float to) {
    if (from == to) return 1.0f;  // holds for infinities, too
    return power_of_two(__fsub_rn(__fmul_rn(from, kLog2e), __fmul_rn(to, kLog2e)));
  }
  __device__ float log_sum_exp() const {
    const float rounding = fmaf(reference, kLog2e, -__fmul_rn(reference, kLog2e));
    return reference + (log2f(sum) - rounding) * kLn2;
  }
};

/// The sum of one thread, whose reference moves only where it must: to the largest of what comes
/// next, if that exceeds it by more than kSlack.
template <class T>
class RunningSoftmax {
 public:
  __device__ __forceinline__ void look_at(float largest) {
    if (largest <= limit_) return;
    now_ = {largest, now_.sum * Softmax::factor(now_.reference, largest)};
    limit_ = largest + kSlack<T>;
    base_ = __fmul_rn(largest, kLog2e);
  }
  template <int W>
  __device__ __forceinline__ void add(const float (&x)[W]) {
#pragma unroll
    for (int i = 0; i < W; ++i) now_.sum += power_of_two(fmaf(x[i], kLog2e, -base_));
  }
  [[nodiscard]] __device__ Softmax now() const { return now_; }

 private:
  Softmax now_ = Softmax::of_nothing();
  float limit_ = -__builtin_inff();
  float base_ = 0;  ///< reference log2(e); with nothing but -infinity any number gives the sum of 0
};

/// Combines what the lanes of a warp have, in all lanes: first the largest reference, then the
/// sums.
__device__ __forceinline__ Softmax warp_softmax(Softmax own) {
  Softmax all = own;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    all.reference = fmaxf(all.reference, __shfl_xor_sync(kAllLanes, all.reference, distance));
  }
  all.sum *= Softmax::factor(own.reference, all.reference);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    all.sum += __shfl_xor_sync(kAllLanes, all.sum, distance);
  }
  return all;
}

/// Turns the logits of a row into probabilities.
template <class T>
class Probability {
 public:
  __device__ static Probability of(const Softmax& row) {
    Probability p;
    p.exponent_ = row.log_sum_exp() * kLog2e;
    return p;
  }
  __device__ __forceinline__ float operator()(float x) const {
    return power_of_two(fmaf(x, kLog2e, -exponent_));
  }

 private:
  float exponent_;  ///< lse log2(e)
};

/// In f32: 2^(x log2(e) - base) / sum, where the sum is relative to the same base. The exponent is
/// a whole number, which is exact, and a rest of at most 1.
template <>
class Probability<float> {
 public:
  __device__ static Probability of(const Softmax& row) {
    Probability p;
    const float base = __fmul_rn(row.reference, kLog2e);
    p.reference_ = row.reference;
    p.whole_ = rintf(base);
    p.rest_ = base - p.whole_;
    p.share_ = 1.0f / row.sum;
    return p;
  }
  __device__ __forceinline__ float operator()(float x) const {
    constexpr float kRounder = 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
    constexpr float kLeast = -126;
    constexpr int kFractionBits = 23;
    const float shifted = fmaxf(fmaf(x, kLog2e, -whole_), kLeast) + kRounder;
    const float rest = fmaf(x, kLog2e, -(whole_ + (shifted - kRounder))) - rest_;
    const float power = power_of_two(fmaf(x - reference_, kLog2eRest, rest));
    const int exponent = __float_as_int(shifted) << kFractionBits;  // the rounder has no bits there
    return power * share_ * __int_as_float(exponent + __float_as_int(1.0f));
  }

 private:
  float reference_;
  float whole_, rest_;  ///< together the base, which is reference log2(e) as rounded
  float share_;
};

/// What the gradient of a row takes besides its logits.
template <class T>
struct Gradient {
  bool ignored;
  Probability<T> probability;
  float scale;

  /// Replaces the logits x, none of which is the target's, by their gradient.
  template <int W>
  __device__ __forceinline__ void differentiate(float (&x)[W]) const {
#pragma unroll
    for (int i = 0; i < W; ++i) x[i] = ignored ? 0.0f : probability(x[i]) * scale;
  }
};

}  // namespace strata::cuda::cross_entropy
