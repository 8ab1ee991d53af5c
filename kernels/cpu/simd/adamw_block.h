// This file updates a block of parameters whose moments in 8 bits share scales
// (strata/ops/moment_codes.h has the format): the update leaves the moments in f32, and when the
// largest are known they become codes. Both loops have one shape, for the compiler to vectorise.
// All variants give the same bits, since codes are made by integers alone.

#pragma once

#include "kernels/cpu/simd/adamw_math.h"
#include "strata/ops/moment_codes.h"

namespace strata::cpu {
namespace {

static_assert(kStrip == kMomentBlock, "a strip has one scale for each moment");

/// Returns the bits of 2^(scale - 127) times 2^places, modulo 2^32: a scale that a checkpoint makes
/// up may be larger than any that is written.
[[gnu::always_inline]] inline std::int32_t scaled_bits(std::int32_t scale, std::int32_t places) {
  return (scale + places) << 23;
}

/// Returns the number of a code without its sign.
[[gnu::always_inline]] inline float decoded(std::int32_t code, std::int32_t scale) {
  // An f32 has its highest bit of mantissa implied. Small codes have none: they get one, of 16,
  // which is taken away again.
  const std::int32_t sixteen = scaled_bits(scale, 4);
  const std::int32_t implied = code < 16 ? sixteen : scaled_bits(scale, 3);
  const std::int32_t excess = code < 16 ? sixteen : 0;
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(code) << 19) + static_cast<std::uint32_t>(implied);
  return __builtin_bit_cast(float, bits) - __builtin_bit_cast(float, excess);
}

/// Returns the code of |x|, of which these are the bits, rounded by 16 random bits.
[[gnu::always_inline]] inline std::int32_t coded(std::int32_t bits, std::int32_t scale,
                                                 std::int32_t random) {
  const std::int32_t sixteen = scaled_bits(scale, 4);
  const float sum = __builtin_bit_cast(float, bits) + __builtin_bit_cast(float, sixteen);
  const std::int32_t small = __builtin_bit_cast(std::int32_t, sum) - sixteen;
  const std::int32_t large = bits - scaled_bits(scale, 3);
  // With ?: the sum may come to lie in a branch, and the loop does not become vectors.
  const std::int32_t is_small = -static_cast<std::int32_t>(bits < sixteen);
  return (((small & is_small) | (large & ~is_small)) + 8 * random + 4) >> 19;
}

/// The scale of a block; without one its codes are zeros.
struct Scale {
  std::int32_t value = 0;
  bool finite = true;
};
/// Returns the scale of a block whose largest number has these bits, `reach` binary places below
/// the largest numbers of the format.
[[gnu::always_inline]] inline Scale scale_of(std::int32_t largest, std::int32_t reach) {
  const std::uint32_t top = (static_cast<std::uint32_t>(largest) + 0x7ffffu) >> 23;
  if (top >= 255) return {0, false};
  const std::int32_t scale = static_cast<std::int32_t>(top) - reach;
  return {largest == 0 ? 0 : (scale < 1 ? 1 : scale), true};
}

/// In place of low halves: the bf16 weight is all there is of it.
struct NoLow {};

[[gnu::always_inline]] inline float master_of(const float* weight, const std::int16_t*,
                                              std::int64_t i) {
  return weight[i];
}
[[gnu::always_inline]] inline float master_of(const Bf16* weight, const std::int16_t* low,
                                              std::int64_t i) {
  return join(weight[i], low[i]);
}
[[gnu::always_inline]] inline float master_of(const Bf16* weight, const NoLow*, std::int64_t i) {
  return widen(weight[i]);
}
// Each puts a master to its place; one that is rounded takes 16 random bits.
[[gnu::always_inline]] inline void put_master(float w, float* weight, std::int16_t*, std::int64_t i,
                                              std::uint32_t) {
  weight[i] = w;
}
[[gnu::always_inline]] inline void put_master(float w, Bf16* weight, NoLow*, std::int64_t i,
                                              std::uint32_t random) {
  store_rounded(weight[i], w, random);
}
[[gnu::always_inline]] inline void put_master(float w, Bf16* weight, std::int16_t* low,
                                              std::int64_t i, std::uint32_t) {
  const auto bits = __builtin_bit_cast(std::uint32_t, w);
  weight[i].bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
  low[i] = static_cast<std::int16_t>(bits);  // bits - (hi << 16), modulo 2^16
}

/// The tensors of a block, from its first element on. W is float, or Bf16 with low halves of L.
template <class W, class L, class G>
struct CodedBlock {
  W* __restrict weight;
  L* __restrict low;
  std::uint8_t* __restrict m;
  std::uint8_t* __restrict v;
  const G* __restrict grad;

  /// Returns the tensors from an element on.
  [[nodiscard]] CodedBlock after(std::int64_t elements) const {
    return {weight + elements, low == nullptr ? nullptr : low + elements, m + elements,
            v + elements, grad + elements};
  }
};

/// Updates the `count` parameters of a block and its scales. Returns whether every new weight and
/// moment is finite.
template <class W, class L, class G>
[[gnu::always_inline]] inline bool update_block(const CodedBlock<W, L, G> b,
                                                std::uint8_t* __restrict scales,
                                                const std::int64_t count,
                                                const AdamWFactors<float>& f, Rounding rounding,
                                                Rounding weight_rounding) {
  alignas(64) float m[kMomentBlock];
  alignas(64) float v[kMomentBlock];
  const std::int32_t old_m = scales[0];
  const std::int32_t old_v = scales[1];
  std::int32_t largest_m = 0;
  std::int32_t largest_v = 0;
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t code = b.m[i];
    const float size = decoded(code & 0x7f, old_m);
    float new_m = (code & 0x80) != 0 ? -size : size;
    float new_v = decoded(b.v[i], old_v);
    const auto g = static_cast<float>(widen(b.grad[i]));
    const float w = updated(master_of(b.weight, b.low, i), g, new_m, new_v, f);
    put_master(w, b.weight, b.low, i, rounding_bits(weight_rounding, i) & 0xffffu);
    m[i] = new_m;
    v[i] = new_v;
    const std::int32_t size_m = __builtin_bit_cast(std::int32_t, new_m) & 0x7fffffff;
    const std::int32_t size_v = __builtin_bit_cast(std::int32_t, new_v) & 0x7fffffff;
    largest_m = largest_m < size_m ? size_m : largest_m;
    largest_v = largest_v < size_v ? size_v : largest_v;
    bad |= static_cast<std::uint32_t>(!is_finite(w));
  }
  const Scale scale_m = scale_of(largest_m, 10);
  const Scale scale_v = scale_of(largest_v, 18);
  const std::int32_t kept_m = scale_m.value > 0 ? 0xff : 0;
  const std::int32_t kept_v = scale_v.value > 0 ? 0xff : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t random = rounding_bits(rounding, i);
    const auto bits_m = __builtin_bit_cast(std::int32_t, m[i]);
    const std::int32_t size_v = __builtin_bit_cast(std::int32_t, v[i]) & 0x7fffffff;
    const std::int32_t code_m =
        coded(bits_m & 0x7fffffff, scale_m.value, static_cast<std::int32_t>(random & 0xffffu));
    const std::int32_t code_v =
        coded(size_v, scale_v.value, static_cast<std::int32_t>(random >> 16));
    const std::int32_t least_v = size_v != 0 ? 1 : 0;
    const std::int32_t sign = bits_m < 0 ? 0x80 : 0;
    b.m[i] = static_cast<std::uint8_t>((code_m | sign) & kept_m);
    b.v[i] = static_cast<std::uint8_t>((code_v < least_v ? least_v : code_v) & kept_v);
  }
  scales[0] = static_cast<std::uint8_t>(scale_m.value);
  scales[1] = static_cast<std::uint8_t>(scale_v.value);
  return bad == 0 && scale_m.finite && scale_v.finite;
}

}  // namespace
}  // namespace strata::cpu
