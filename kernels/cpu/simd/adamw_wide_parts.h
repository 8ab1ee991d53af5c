// This file has what adamw_wide_block.h updates blocks with, by AVX-512: the numbers of an update,
// a division by one of them, gradients, masters and random bits, each as four registers for the 64
// parameters of a block.
//
// Order: a register has 16 parameters in lanes of 32 bits, as words give them without being moved.
// Lane i of the first has parameter 2 i of the block, of the second 2 i + 1, of the third and the
// fourth those that come 32 later.

#pragma once

#include "kernels/cpu/simd/adamw_block.h"

namespace strata::cpu {
namespace {

#if defined(__AVX512F__)

using Floats = __m512;
using Words = __m512i;

constexpr int kQuarters = 4;
using Quarters = Floats[kQuarters];  ///< a number of each parameter of a block

[[gnu::always_inline]] inline Words in_all(std::uint32_t bits) {
  return _mm512_set1_epi32(static_cast<int>(bits));
}
[[gnu::always_inline]] inline Words bits_of(Floats x) { return _mm512_castps_si512(x); }
[[gnu::always_inline]] inline Floats with_bits(Words x) { return _mm512_castsi512_ps(x); }

/// What is the same for all blocks of an update.
struct WideConstants {
  Floats lr, lr_decay, one_minus_beta1, one_minus_beta2, eps, grad_factor;
  Floats correction1, per_correction1, correction2, per_correction2;
  std::int32_t beta1, beta2;     ///< their bits
  std::uint32_t least_gradient;  ///< bits of the least |gradient| that a block may have but 0
  bool usable = false;           ///< whether any block can be updated here
  Words interleaved, apart;      ///< orders of the words of 64 codes, to registers and back
  Words upper, sign, size_m, size_v, steps, half, doubling, high_bytes, ones;
  Floats eight, two, sixteen;

  explicit WideConstants(const AdamWFactors<float>& f);
};

// Were it inlined, the compiler would make constants again and again out of general registers,
// which takes a tenth of the update.
[[gnu::noinline]] WideConstants::WideConstants(const AdamWFactors<float>& f)
    : lr(_mm512_set1_ps(f.lr)),
      lr_decay(_mm512_set1_ps(f.lr_decay)),
      one_minus_beta1(_mm512_set1_ps(f.one_minus_beta1)),
      one_minus_beta2(_mm512_set1_ps(f.one_minus_beta2)),
      eps(_mm512_set1_ps(f.eps)),
      grad_factor(_mm512_set1_ps(f.grad_factor)),
      correction1(_mm512_set1_ps(f.correction1)),
      per_correction1(_mm512_set1_ps(1 / f.correction1)),
      correction2(_mm512_set1_ps(f.correction2)),
      per_correction2(_mm512_set1_ps(1 / f.correction2)),
      beta1(__builtin_bit_cast(std::int32_t, f.beta1)),
      beta2(__builtin_bit_cast(std::int32_t, f.beta2)),
      least_gradient(__builtin_bit_cast(std::uint32_t, 0x1p-42f / f.grad_factor)),
      interleaved(_mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                   7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0)),
      apart(_mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26,
                             24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0)),
      upper(in_all(0xffff0000u)),
      sign(in_all(0x80000000u)),
      size_m(in_all(0x7fu << 19)),
      size_v(in_all(0xffu << 19)),
      steps(in_all(8 * 0xffffu)),
      half(in_all(4)),
      doubling(in_all(1u << 23)),
      high_bytes(in_all(0x80808080u)),
      ones(in_all(0x01010101u)),
      eight(_mm512_set1_ps(8)),
      two(_mm512_set1_ps(2)),
      sixteen(_mm512_set1_ps(16)) {
  const auto within = [](float x, float least, float most) { return x >= least && x <= most; };
  usable = within(f.beta1, 0.5f, 1) && within(f.one_minus_beta1, 0x1p-14f, 1) &&
           within(f.beta2, 0.5f, 1) && within(f.one_minus_beta2, 0x1p-14f, 1) &&
           within(f.correction1, 0x1p-24f, 1) && within(f.correction2, 0x1p-24f, 1) &&
           within(f.grad_factor, 0x1p-40f, 0x1p40f);
}

/// Returns x / d, rounded to nearest, for an x that is 0 or has a size of 2^-100 to 2^90, a d of
/// 2^-24 to 1 and its reciprocal. The product is off by less than 1.5 units in the last place, and
/// with its excess taken away by so little that only quotients next to the middle between two
/// numbers could be rounded wrongly: those of mantissas X and D of 24 bits with a remainder of 6 at
/// most of 2^25 X (or 2^24 X, if X is not below D), divided by an odd multiple of D. All of them
/// were tried, up to a remainder of 16: 180 million pairs, none of which is.
[[gnu::always_inline]] inline Floats quotient(Floats x, Floats d, Floats reciprocal) {
  const Floats near = _mm512_mul_ps(x, reciprocal);
  const Floats excess = _mm512_fmsub_ps(near, d, x);
  return _mm512_fnmadd_ps(excess, reciprocal, near);
}

/// Returns the bits of `a`, and those of `b` where the mask has ones.
[[gnu::always_inline]] inline Words chosen(Words a, Words b, Words mask) {
  return _mm512_ternarylogic_epi32(a, b, mask, 0xd8);
}

/// Reads the gradients of a block. Returns false if one is below the least but not 0.
[[gnu::always_inline]] inline bool read_gradients(const Bf16* from, const WideConstants& c,
                                                  Quarters& to) {
  const Words first = _mm512_loadu_si512(from);
  const Words second = _mm512_loadu_si512(from + 32);
  to[0] = with_bits(_mm512_slli_epi32(first, 16));
  to[1] = with_bits(_mm512_and_si512(first, c.upper));
  to[2] = with_bits(_mm512_slli_epi32(second, 16));
  to[3] = with_bits(_mm512_and_si512(second, c.upper));
  // Doubled bits have no sign, and 0 - 1 is the largest number.
  const auto size = [](Words g) {
    return _mm512_sub_epi16(_mm512_add_epi16(g, g), _mm512_set1_epi16(1));
  };
  const auto least = static_cast<short>(2 * ((c.least_gradient >> 16) + 1) - 1);
  return _mm512_cmplt_epu16_mask(_mm512_min_epu16(size(first), size(second)),
                                 _mm512_set1_epi16(least)) == 0;
}
[[gnu::always_inline]] inline bool read_gradients(const float* from, const WideConstants& c,
                                                  Quarters& to) {
  const Words even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const Words odd = _mm512_add_epi32(even, in_all(1));
  Words least = in_all(0xffffffffu);
  for (int i = 0; i < kQuarters; i += 2) {
    const Floats first = _mm512_loadu_ps(from + 16 * i);
    const Floats second = _mm512_loadu_ps(from + 16 * i + 16);
    to[i] = _mm512_permutex2var_ps(first, even, second);
    to[i + 1] = _mm512_permutex2var_ps(first, odd, second);
    for (const Floats g : {first, second}) {
      const Words twice = _mm512_add_epi32(bits_of(g), bits_of(g));
      least = _mm512_min_epu32(least, _mm512_sub_epi32(twice, in_all(1)));
    }
  }
  return _mm512_cmplt_epu32_mask(least, in_all(2 * c.least_gradient - 1)) == 0;
}

/// Returns bit i for parameter i of a block whose gradient is 0.
[[gnu::always_inline]] inline std::uint64_t without_gradient(const Bf16* from) {
  std::uint64_t zeros = 0;
  for (int first = 0; first < 64; first += 32) {
    const Words g = _mm512_loadu_si512(from + first);
    zeros |= std::uint64_t{_mm512_testn_epi16_mask(g, _mm512_set1_epi16(0x7fff))} << first;
  }
  return zeros;
}
[[gnu::always_inline]] inline std::uint64_t without_gradient(const float* from) {
  std::uint64_t zeros = 0;
  for (int first = 0; first < 64; first += 16) {
    const Words g = _mm512_loadu_si512(from + first);
    zeros |= std::uint64_t{_mm512_testn_epi32_mask(g, in_all(0x7fffffffu))} << first;
  }
  return zeros;
}

constexpr __mmask32 kOdd = 0xaaaaaaaa;  ///< the upper words of lanes

/// Reads the masters of half a block: the even parameters and the odd ones.
[[gnu::always_inline]] inline void read_masters(const Bf16* weight, const std::int16_t* low,
                                                const WideConstants&, Floats* to) {
  const Words l = _mm512_loadu_si512(low);
  // A low half below 0 takes 1 from the high one.
  const Words w = _mm512_add_epi16(_mm512_loadu_si512(weight), _mm512_srai_epi16(l, 15));
  to[0] = with_bits(_mm512_mask_blend_epi16(kOdd, l, _mm512_slli_epi32(w, 16)));
  to[1] = with_bits(_mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(l, 16), w));
}
[[gnu::always_inline]] inline void read_masters(const Bf16* weight, const NoLow*,
                                                const WideConstants& c, Floats* to) {
  const Words w = _mm512_loadu_si512(weight);
  to[0] = with_bits(_mm512_slli_epi32(w, 16));
  to[1] = with_bits(_mm512_and_si512(w, c.upper));
}

/// The random bits of a block, those of rounding_bits(); then of the one after it.
class WideRandom {
 public:
  explicit WideRandom(Rounding r)
      : high_(in_all(static_cast<std::uint32_t>(r.key >> 32))),
        first_(_mm512_add_epi32(in_all(static_cast<std::uint32_t>(r.key)),
                                steps(static_cast<std::uint32_t>(r.begin)))) {
    const Words lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    first_ = _mm512_add_epi32(first_, _mm512_mullo_epi32(lanes, steps(2)));
  }
  [[gnu::always_inline]] void advance() { first_ = _mm512_add_epi32(first_, steps(kMomentBlock)); }
  /// Returns 32 bits for each parameter of a quarter.
  [[nodiscard, gnu::always_inline]] Words bits(int quarter) const {
    Words x =
        _mm512_add_epi32(first_, steps(static_cast<std::uint32_t>(quarter / 2 * 32 + quarter % 2)));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    x = _mm512_mullo_epi32(x, in_all(0x85ebca6bu));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 13));
    x = _mm512_mullo_epi32(x, in_all(0xc2b2ae35u));
    return _mm512_xor_si512(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), high_);
  }

 private:
  [[gnu::always_inline]] static Words steps(std::uint32_t count) {
    return in_all(count * 0x9e3779b9u);
  }
  Words high_, first_;
};

/// Writes the masters of half a block.
[[gnu::always_inline]] inline void put_masters(const Floats* w, Bf16* weight, std::int16_t* low,
                                               const WideConstants&, const WideRandom&, int) {
  const Words even = bits_of(w[0]);
  const Words odd = bits_of(w[1]);
  const Words lows = _mm512_mask_blend_epi16(kOdd, even, _mm512_slli_epi32(odd, 16));
  const Words highs = _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(even, 16), odd);
  _mm512_storeu_si512(low, lows);
  _mm512_storeu_si512(weight, _mm512_add_epi16(highs, _mm512_srli_epi16(lows, 15)));
}
[[gnu::always_inline]] inline void put_masters(const Floats* w, Bf16* weight, NoLow*,
                                               const WideConstants& c, const WideRandom& random,
                                               int quarter) {
  const auto rounded = [&](int i) {
    return _mm512_add_epi32(bits_of(w[i]), _mm512_andnot_si512(c.upper, random.bits(quarter + i)));
  };
  _mm512_storeu_si512(weight,
                      _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(rounded(0), 16), rounded(1)));
}

#endif

}  // namespace
}  // namespace strata::cpu
