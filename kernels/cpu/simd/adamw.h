// This file writes the operations of strata::AdamW (strata/ops/optimizer.h), in its order, as a
// plain loop for the compiler to vectorise: without branches, so that the loop has one shape. The
// variants (portable.cpp, avx2.cpp, avx512.cpp) include it and put adamw() into their SimdKernels.
// All variants give the same bits.

#pragma once

#include "kernels/cpu/simd/adamw_codes.h"
#include "kernels/cpu/simd/adamw_math.h"

namespace strata::cpu {
namespace {

/// Updates `count` parameters whose master weight is one number. A is the type in which they are
/// updated, W that of the weights and M that of the moments (A or bf16), and G that of the
/// gradient. Returns whether every new weight is finite.
template <class A, class W, class M, class G>
bool update_whole(W* __restrict weight, M* __restrict m, M* __restrict v, const G* __restrict grad,
                  std::int64_t count, const AdamWFactors<A> f, Rounding rounding,
                  Rounding weight_rounding) {
  std::uint32_t bad = 0;
  for (std::int64_t begin = 0; begin < count; begin += kStrip) {
    fetch_ahead(begin, weight, m, v, grad);
    const std::int64_t end = begin + kStrip < count ? begin + kStrip : count;
    for (std::int64_t i = begin; i < end; ++i) {
      A new_m = widen(m[i]);
      A new_v = widen(v[i]);
      const A w = updated(A{widen(weight[i])}, static_cast<A>(widen(grad[i])), new_m, new_v, f);
      const std::uint32_t random = rounding_bits(rounding, i);
      store_rounded(weight[i], w, rounding_bits(weight_rounding, i) & 0xffffu);
      store_rounded(m[i], new_m, random & 0xffffu);
      store_rounded(v[i], new_v, random >> 16);
      bad |= static_cast<std::uint32_t>(!is_finite(w));
    }
  }
  return bad == 0;
}

/// The same for split master weights, of which `weight` is the high half and `low` the rest.
template <class M, class G>
bool update_split(Bf16* __restrict weight, std::int16_t* __restrict low, M* __restrict m,
                  M* __restrict v, const G* __restrict grad, std::int64_t count,
                  const AdamWFactors<float> f, Rounding rounding) {
  std::uint32_t bad = 0;
  for (std::int64_t begin = 0; begin < count; begin += kStrip) {
    fetch_ahead(begin, weight, low, m, v, grad);
    const std::int64_t end = begin + kStrip < count ? begin + kStrip : count;
    for (std::int64_t i = begin; i < end; ++i) {
      const float g = static_cast<float>(widen(grad[i]));
      float new_m = widen(m[i]);
      float new_v = widen(v[i]);
      const float w = updated(join(weight[i], low[i]), g, new_m, new_v, f);
      const std::uint32_t random = rounding_bits(rounding, i);
      store_rounded(m[i], new_m, random & 0xffffu);
      store_rounded(v[i], new_v, random >> 16);
      bad |= static_cast<std::uint32_t>(!is_finite(w));
      const auto bits = __builtin_bit_cast(std::uint32_t, w);
      weight[i].bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
      low[i] = static_cast<std::int16_t>(bits);  // bits - (hi << 16), modulo 2^16
    }
  }
  return bad == 0;
}

/// Updates weights that accumulate in f32: f32 ones, or bf16 ones, split or not.
template <class M, class G>
bool adamw_f32(const AdamWRange& r, const G* grad) {
  const std::int64_t count = r.end - r.begin;
  M* m = static_cast<M*>(r.m) + r.begin;
  M* v = static_cast<M*>(r.v) + r.begin;
  const Rounding rounding{r.rounding_key, r.rounding_begin};
  const Rounding weight_rounding{r.weight_key, r.rounding_begin};
  if (r.weight_dtype == DType::kF32) {
    return update_whole(static_cast<float*>(r.weight) + r.begin, m, v, grad, count, r.f32, rounding,
                        weight_rounding);
  }
  Bf16* weight = static_cast<Bf16*>(r.weight) + r.begin;
  if (r.low == nullptr) {
    return update_whole(weight, m, v, grad, count, r.f32, rounding, weight_rounding);
  }
  return update_split(weight, r.low + r.begin, m, v, grad, count, r.f32, rounding);
}

template <class G>
bool adamw_with(const AdamWRange& r) {
  const G* grad = static_cast<const G*>(r.grad) + r.begin;
  if (r.weight_dtype == DType::kF64) {
    return update_whole(static_cast<double*>(r.weight) + r.begin,
                        static_cast<double*>(r.m) + r.begin, static_cast<double*>(r.v) + r.begin,
                        grad, r.end - r.begin, r.f64, Rounding{}, Rounding{});
  }
  switch (r.moment_dtype) {
    case DType::kU8: return adamw_with_codes(r, grad);
    case DType::kBF16: return adamw_f32<Bf16>(r, grad);
    default: return adamw_f32<float>(r, grad);
  }
}

bool adamw(const AdamWRange& r) {
  switch (r.grad_dtype) {
    case DType::kF64: return adamw_with<double>(r);
    case DType::kF32: return adamw_with<float>(r);
    default: return adamw_with<Bf16>(r);
  }
}

}  // namespace
}  // namespace strata::cpu
