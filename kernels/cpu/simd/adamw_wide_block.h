// This file updates whole blocks of 64 parameters with moments in 8 bits by AVX-512, to the bits of
// update_block() (adamw_block.h). A block is in registers from its first read to its last write, so
// that its largest moments are known before codes are made. Codes get into the order of
// adamw_wide_parts.h, byte for byte of each lane, by moving words once.
//
// Numerics: a division by a correction is a product and its remainder (quotient()), which holds
// while nothing underflows. So blocks with numbers that are tiny, huge or not finite are left to
// update_block().

#pragma once

#include "kernels/cpu/simd/adamw_wide_parts.h"

namespace strata::cpu {
namespace {

#if defined(__AVX512F__)

/// Returns the numbers of codes without signs in bits 19 to 26, in units of their scale. With an
/// implied bit a code k below 16 gives 8 + k / 2, of which twice as much less 16 is right; of
/// larger codes that would be more than they give.
[[gnu::always_inline]] inline Floats decoded(Words code, const WideConstants& c) {
  const Floats large = with_bits(_mm512_add_epi32(code, bits_of(c.eight)));
  const Floats small = _mm512_fmsub_ps(large, c.two, c.sixteen);
  return with_bits(_mm512_min_epi32(bits_of(large), bits_of(small)));
}

/// Each returns the moments of a block in units of their scale.
[[gnu::always_inline]] inline void read_first_moments(Words codes, const WideConstants& c,
                                                      Quarters& m) {
  const auto signed_of = [&](Words size, Words sign) {
    const Floats x = decoded(_mm512_and_si512(size, c.size_m), c);
    return with_bits(chosen(bits_of(x), sign, c.sign));
  };
  m[0] = signed_of(_mm512_slli_epi32(codes, 19), _mm512_slli_epi32(codes, 24));
  m[1] = signed_of(_mm512_slli_epi32(codes, 11), _mm512_slli_epi32(codes, 16));
  m[2] = signed_of(_mm512_slli_epi32(codes, 3), _mm512_slli_epi32(codes, 8));
  m[3] = signed_of(_mm512_srli_epi32(codes, 5), codes);
}
[[gnu::always_inline]] inline void read_second_moments(Words codes, const WideConstants& c,
                                                       Quarters& v) {
  v[0] = decoded(_mm512_and_si512(_mm512_slli_epi32(codes, 19), c.size_v), c);
  v[1] = decoded(_mm512_and_si512(_mm512_slli_epi32(codes, 11), c.size_v), c);
  v[2] = decoded(_mm512_and_si512(_mm512_slli_epi32(codes, 3), c.size_v), c);
  v[3] = decoded(_mm512_and_si512(_mm512_srli_epi32(codes, 5), c.size_v), c);
}

// A block that is updated here has no number, before it is rounded, whose size is below 2^-100 but
// 0, or 2^90 and more. m is a sum that may cancel: of numbers whose last bits are 24 places below
// their first at most.
constexpr std::int32_t kLeastM = 127 - 74;
constexpr std::int32_t kLeastV = 127 - 98;
constexpr std::int32_t kMostBits = (127 + 90) << 23;

/// Returns whether codes may be decoded here: their scale is in these limits, or they are zeros.
[[gnu::always_inline]] inline bool decodable(Words codes, std::int32_t scale, std::int32_t least,
                                             std::int32_t most) {
  return scale >= least ? scale <= most : scale == 0 && _mm512_test_epi8_mask(codes, codes) == 0;
}
/// Returns a factor, of which these are the bits, times a scale; times any if there is none.
[[gnu::always_inline]] inline Floats times_scale(std::int32_t factor, std::int32_t scale,
                                                 std::int32_t least) {
  return with_bits(_mm512_set1_epi32(factor + (((scale < least ? least : scale) - 127) << 23)));
}

/// Returns lanes of four bytes: the first one of x0, the second one of x1...
[[gnu::always_inline]] inline Words joined(Words x0, Words x1, Words x2, Words x3) {
  const Words lower = _mm512_mask_mov_epi8(x0, 0x2222222222222222, x1);
  const Words upper = _mm512_mask_mov_epi8(x2, 0x8888888888888888, x3);
  return _mm512_mask_mov_epi8(lower, 0xcccccccccccccccc, upper);
}

/// Returns the code of a size, rounded by 16 random bits that begin at bit 3, and 16 (scale + 4)
/// more, in bits 19 on. Of the two numbers that coded() chooses from, the right one is the larger.
[[gnu::always_inline]] inline Words rounded(Words size, Words random, Floats sixteen,
                                            const WideConstants& c) {
  const Words small = bits_of(_mm512_add_ps(with_bits(size), sixteen));
  const Words large = _mm512_add_epi32(size, c.doubling);
  const Words added = _mm512_ternarylogic_epi32(random, c.steps, c.half, 0xea);  // 8 r | 4
  return _mm512_add_epi32(_mm512_max_epi32(small, large), added);
}
/// Returns the codes of a block that are rounded so.
[[gnu::always_inline]] inline Words codes_of(const Words (&x)[kQuarters], std::int32_t scale) {
  return _mm512_sub_epi8(joined(_mm512_srli_epi32(x[0], 19), _mm512_srli_epi32(x[1], 11),
                                _mm512_srli_epi32(x[2], 3), _mm512_slli_epi32(x[3], 5)),
                         _mm512_set1_epi8(static_cast<char>(16 * (scale + 4))));
}

/// Returns the signs of a block in the highest bits of its bytes; the other bits are any.
[[gnu::always_inline]] inline Words signs_of(const Quarters& m) {
  return joined(_mm512_srli_epi32(bits_of(m[0]), 24), _mm512_srli_epi32(bits_of(m[1]), 16),
                _mm512_srli_epi32(bits_of(m[2]), 8), bits_of(m[3]));
}

/// The bits of the largest |m| and of the largest v of a block. What is no number may be left out.
struct Largest {
  std::int32_t m, v;
};
[[gnu::always_inline]] inline Largest largest_of(const Quarters& m, const Quarters& v) {
  constexpr int kSizes = 0xb;  // the larger one, without its sign
  const Floats of_m = _mm512_range_ps(_mm512_range_ps(m[0], m[1], kSizes),
                                      _mm512_range_ps(m[2], m[3], kSizes), kSizes);
  const Floats of_v = _mm512_max_ps(_mm512_max_ps(v[0], v[1]), _mm512_max_ps(v[2], v[3]));
  // Both at once from here on: m in the lower half of x.
  Floats x =
      _mm512_max_ps(_mm512_shuffle_f32x4(of_m, of_v, 0x44), _mm512_shuffle_f32x4(of_m, of_v, 0xee));
  x = _mm512_max_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1));
  x = _mm512_max_ps(x, _mm512_permute_ps(x, 0x4e));
  x = _mm512_max_ps(x, _mm512_permute_ps(x, 0xb1));
  return {_mm_cvtsi128_si32(_mm_castps_si128(_mm512_castps512_ps128(x))),
          _mm_cvtsi128_si32(_mm_castps_si128(_mm512_extractf32x4_ps(x, 2)))};
}

/// Adds the gradients of a block to its moments, which are in units of their scales; beta1 and
/// beta2 are times these scales, which is exact.
[[gnu::always_inline]] inline void update_moments(Quarters& g, Floats beta1, Floats beta2,
                                                  const WideConstants& c, Quarters& m,
                                                  Quarters& v) {
  for (int i = 0; i < kQuarters; ++i) {
    const Floats x = _mm512_mul_ps(g[i], c.grad_factor);
    m[i] = _mm512_fmadd_ps(beta1, m[i], _mm512_mul_ps(c.one_minus_beta1, x));
    v[i] = _mm512_fmadd_ps(beta2, v[i], _mm512_mul_ps(_mm512_mul_ps(c.one_minus_beta2, x), x));
  }
}

/// Updates the masters of a block; returns whether all are finite.
[[gnu::always_inline]] inline bool update_masters(const Quarters& m, const Quarters& v,
                                                  const WideConstants& c, Quarters& w) {
  Floats zeros = _mm512_setzero_ps();
  for (int i = 0; i < kQuarters; ++i) {
    const Floats root = _mm512_sqrt_ps(quotient(v[i], c.correction2, c.per_correction2));
    const Floats u =
        _mm512_div_ps(quotient(m[i], c.correction1, c.per_correction1), _mm512_add_ps(root, c.eps));
    w[i] = _mm512_fnmadd_ps(c.lr_decay, w[i], w[i]);
    w[i] = _mm512_fnmadd_ps(c.lr, u, w[i]);
    zeros = _mm512_fmadd_ps(w[i], _mm512_setzero_ps(), zeros);
  }
  return _mm512_cmp_ps_mask(zeros, zeros, _CMP_UNORD_Q) == 0;
}

/// Updates the parameters of a block and its scales. Returns false, and has changed nothing, if
/// that is for update_block().
template <class L, class G>
[[gnu::always_inline]] inline bool update_wide_block(const CodedBlock<Bf16, L, G>& b,
                                                     std::uint8_t* __restrict scales,
                                                     const WideConstants& c,
                                                     const WideRandom& random,
                                                     const WideRandom& random_weights) {
  const Words old_m = _mm512_loadu_si512(b.m);
  const Words old_v = _mm512_loadu_si512(b.v);
  const std::int32_t scale_m = scales[0];
  const std::int32_t scale_v = scales[1];
  Quarters g, m, v, w;
  if (!read_gradients(b.grad, c, g) || !decodable(old_m, scale_m, kLeastM, 254 - 10) ||
      !decodable(old_v, scale_v, kLeastV, 254 - 18)) {
    return false;
  }
  read_first_moments(_mm512_permutexvar_epi16(c.interleaved, old_m), c, m);
  read_second_moments(_mm512_permutexvar_epi16(c.interleaved, old_v), c, v);
  update_moments(g, times_scale(c.beta1, scale_m, kLeastM), times_scale(c.beta2, scale_v, kLeastV),
                 c, m, v);
  const Largest largest = largest_of(m, v);
  L* const second_low = b.low == nullptr ? nullptr : b.low + 32;
  read_masters(b.weight, b.low, c, w);
  read_masters(b.weight + 32, second_low, c, w + 2);
  if (!update_masters(m, v, c, w) || largest.m >= kMostBits || largest.v >= kMostBits) return false;
  put_masters(w, b.weight, b.low, c, random_weights, 0);
  put_masters(w + 2, b.weight + 32, second_low, c, random_weights, 2);
  const Scale new_m = scale_of(largest.m, 10);
  const Scale new_v = scale_of(largest.v, 18);
  const Floats sixteen_m = with_bits(_mm512_set1_epi32(scaled_bits(new_m.value, 4)));
  const Floats sixteen_v = with_bits(_mm512_set1_epi32(scaled_bits(new_v.value, 4)));
  Words to_m[kQuarters], to_v[kQuarters];
  for (int i = 0; i < kQuarters; ++i) {
    const Words bits = random.bits(i);
    to_m[i] = rounded(_mm512_andnot_si512(c.sign, bits_of(m[i])), _mm512_slli_epi32(bits, 3),
                      sixteen_m, c);
    to_v[i] = rounded(bits_of(v[i]), _mm512_srli_epi32(bits, 13), sixteen_v, c);
  }
  const Words codes_m = chosen(codes_of(to_m, new_m.value), signs_of(m), c.high_bytes);
  const Words codes_v = codes_of(to_v, new_v.value);
  const __mmask64 kept_m = new_m.value > 0 ? ~__mmask64{0} : __mmask64{0};
  __mmask64 empty = _mm512_testn_epi8_mask(old_v, old_v);
  if (empty != 0) empty &= without_gradient(b.grad);
  _mm512_storeu_si512(b.m,
                      _mm512_maskz_mov_epi8(kept_m, _mm512_permutexvar_epi16(c.apart, codes_m)));
  _mm512_storeu_si512(
      b.v, _mm512_maskz_max_epu8(~empty, _mm512_permutexvar_epi16(c.apart, codes_v), c.ones));
  scales[0] = static_cast<std::uint8_t>(new_m.value);
  scales[1] = static_cast<std::uint8_t>(new_v.value);
  return true;
}

/// Updates blocks from the first one on, up to one that is for update_block(), or is not whole.
/// Returns the number of their parameters. It is not inlined, so that the registers of its loop do
/// not depend on those of update_block().
template <class L, class G>
  requires(sizeof(G) <= 4)
[[gnu::noinline]] std::int64_t update_wide_blocks(CodedBlock<Bf16, L, G> b, std::uint8_t* scales,
                                                  std::int64_t count,
                                                  const AdamWFactors<float>& factors,
                                                  Rounding rounding, Rounding weight_rounding) {
  const WideConstants c(factors);
  if (!c.usable) return 0;
  WideRandom random(rounding);
  WideRandom random_weights(weight_rounding);
  std::int64_t done = 0;
  while (done + kMomentBlock <= count) {
    fetch_ahead(0, b.weight, b.m, b.v, b.grad);
    if (b.low != nullptr) fetch_ahead(0, b.low);
    if (!update_wide_block(b, scales, c, random, random_weights)) break;
    done += kMomentBlock;
    b = b.after(kMomentBlock);
    scales += kMomentScales;
    random.advance();
    random_weights.advance();
  }
  return done;
}

#endif

/// Where there are no such registers, and for other types, no block is updated.
template <class W, class L, class G>
std::int64_t update_wide_blocks(const CodedBlock<W, L, G>&, std::uint8_t*, std::int64_t,
                                const AdamWFactors<float>&, Rounding, Rounding) {
  return 0;
}

}  // namespace
}  // namespace strata::cpu
