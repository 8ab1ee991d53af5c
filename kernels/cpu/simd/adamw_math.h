// This file has what the loops of AdamW (adamw.h, adamw_codes.h) share: the update of one parameter
// in the order of strata::AdamW, the halves of a split master, random bits, and requests for memory
// that is needed soon.

#pragma once

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vector.h"

namespace strata::cpu {
namespace {

inline bool is_finite(float x) {
  return (__builtin_bit_cast(std::uint32_t, x) & 0x7f800000u) != 0x7f800000u;
}
inline bool is_finite(double x) {
  constexpr std::uint64_t kExponent = 0x7ff0000000000000u;
  return (__builtin_bit_cast(std::uint64_t, x) & kExponent) != kExponent;
}

/// Joins the halves of a split master weight: bits(w) = (hi << 16) + sign-extended lo modulo 2^32.
inline float join(Bf16 high, std::int16_t low) {
  const auto bits = (static_cast<std::uint32_t>(high.bits) << 16) +
                    static_cast<std::uint32_t>(static_cast<std::int32_t>(low));
  return __builtin_bit_cast(float, bits);
}

// It is always inlined, since a call in the loop would keep it from becoming vectors.
template <class A>
[[gnu::always_inline]] inline A updated(A w, A grad, A& m, A& v, const AdamWFactors<A>& f) {
  const A g = grad * f.grad_factor;
  m = fused(f.beta1, m, f.one_minus_beta1 * g);
  v = fused(f.beta2, v, (f.one_minus_beta2 * g) * g);
  const A u = (m / f.correction1) / (root(v / f.correction2) + f.eps);
  w = fused(-f.lr_decay, w, w);
  return fused(-f.lr, u, w);
}

/// Where the random bits of moments and weights that are rounded come from.
struct Rounding {
  std::uint64_t key = 0;   ///< the key of the block of 4096 elements
  std::int64_t begin = 0;  ///< the place of the first element in the block
};

/// Returns 32 random bits for element i of a range; the upper half rounds v, the lower m.
[[gnu::always_inline]] inline std::uint32_t rounding_bits(Rounding r, std::int64_t i) {
  std::uint32_t x =
      static_cast<std::uint32_t>(r.key) + static_cast<std::uint32_t>(r.begin + i) * 0x9e3779b9u;
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  x ^= x >> 16;
  return x ^ static_cast<std::uint32_t>(r.key >> 32);
}

/// Stores x, or rounds it stochastically by 16 random bits.
template <class A>
[[gnu::always_inline]] inline void store_rounded(A& to, A x, std::uint32_t) {
  to = x;
}
[[gnu::always_inline]] inline void store_rounded(Bf16& to, float x, std::uint32_t random) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t quiet = (bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0u;
  const std::uint32_t added = is_finite(x) ? bits + random : bits | quiet;
  to.bits = static_cast<std::uint16_t>(added >> 16);
}

/// An update reads and writes more streams at once than a processor follows by itself, the more so
/// while the link takes its share of memory: so every strip of elements asks for those that come
/// this many later.
constexpr std::int64_t kStrip = 64;
constexpr std::int64_t kAhead = 512;

/// Asks for the strip that comes kAhead elements after `begin`. It may lie beyond the end of the
/// range: such a request is dropped, or serves whoever updates what comes there.
template <class... T>
[[gnu::always_inline]] inline void fetch_ahead(std::int64_t begin, const T*... streams) {
  constexpr std::int64_t kLine = 64;
  const auto fetch = [](std::uintptr_t data, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(data + static_cast<std::uintptr_t>(at)));
    }
  };
  const auto at = static_cast<std::uintptr_t>(begin + kAhead);
  (fetch(reinterpret_cast<std::uintptr_t>(streams) + at * sizeof(T),
         kStrip * static_cast<std::int64_t>(sizeof(T))),
   ...);
}

}  // namespace
}  // namespace strata::cpu
