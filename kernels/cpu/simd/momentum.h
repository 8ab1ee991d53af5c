// This file writes the operations of strata::Momentum (strata/ops/optimizer.h), in its order, as
// plain loops for the compiler to vectorise, like those of adamw.h. All variants give the same
// bits.

#pragma once

#include "kernels/cpu/simd/adamw.h"

namespace strata::cpu {
namespace {

enum class OneMoment : std::uint8_t { kLion, kSgd, kNesterov };

/// Returns the new weight. It is always inlined, since a call in the loop would keep it from
/// becoming vectors.
template <OneMoment kFormula, class A>
[[gnu::always_inline]] inline A moved(A w, A grad, A& m, const AdamWFactors<A>& f) {
  const A g = grad * f.grad_factor;
  A u = 0;
  if constexpr (kFormula == OneMoment::kLion) {
    const A mixed = fused(f.beta1, m, f.one_minus_beta1 * g);
    m = fused(f.beta2, m, f.one_minus_beta2 * g);
    u = mixed > 0 ? A{1} : (mixed < 0 ? A{-1} : mixed);
  } else {
    m = fused(f.beta1, m, g);
    u = kFormula == OneMoment::kNesterov ? fused(f.beta1, m, g) : m;
  }
  w = fused(-f.lr_decay, w, w);
  return fused(-f.lr, u, w);
}

/// Updates `count` parameters whose master weight is one number; the types are those of
/// update_whole(). Returns whether every new weight is finite.
template <OneMoment kFormula, class A, class W, class M, class G>
bool move_whole(W* __restrict weight, M* __restrict m, const G* __restrict grad, std::int64_t count,
                const AdamWFactors<A> f, Rounding rounding, Rounding weight_rounding) {
  std::uint32_t bad = 0;
  for (std::int64_t begin = 0; begin < count; begin += kStrip) {
    fetch_ahead(begin, weight, m, grad);
    const std::int64_t end = begin + kStrip < count ? begin + kStrip : count;
    for (std::int64_t i = begin; i < end; ++i) {
      A new_m = widen(m[i]);
      const A w = moved<kFormula>(A{widen(weight[i])}, static_cast<A>(widen(grad[i])), new_m, f);
      store_rounded(weight[i], w, rounding_bits(weight_rounding, i) & 0xffffu);
      store_rounded(m[i], new_m, rounding_bits(rounding, i) & 0xffffu);
      bad |= static_cast<std::uint32_t>(!is_finite(w));
    }
  }
  return bad == 0;
}

/// The same for split master weights.
template <OneMoment kFormula, class M, class G>
bool move_split(Bf16* __restrict weight, std::int16_t* __restrict low, M* __restrict m,
                const G* __restrict grad, std::int64_t count, const AdamWFactors<float> f,
                Rounding rounding) {
  std::uint32_t bad = 0;
  for (std::int64_t begin = 0; begin < count; begin += kStrip) {
    fetch_ahead(begin, weight, low, m, grad);
    const std::int64_t end = begin + kStrip < count ? begin + kStrip : count;
    for (std::int64_t i = begin; i < end; ++i) {
      float new_m = widen(m[i]);
      const float w =
          moved<kFormula>(join(weight[i], low[i]), static_cast<float>(widen(grad[i])), new_m, f);
      store_rounded(m[i], new_m, rounding_bits(rounding, i) & 0xffffu);
      bad |= static_cast<std::uint32_t>(!is_finite(w));
      put_master(w, weight, low, i, 0);
    }
  }
  return bad == 0;
}

template <OneMoment kFormula, class M, class G>
bool momentum_f32(const AdamWRange& r, const G* grad) {
  const std::int64_t count = r.end - r.begin;
  M* m = static_cast<M*>(r.m) + r.begin;
  const Rounding rounding{r.rounding_key, r.rounding_begin};
  const Rounding weight_rounding{r.weight_key, r.rounding_begin};
  if (r.weight_dtype == DType::kF32) {
    return move_whole<kFormula>(static_cast<float*>(r.weight) + r.begin, m, grad, count, r.f32,
                                rounding, weight_rounding);
  }
  Bf16* weight = static_cast<Bf16*>(r.weight) + r.begin;
  if (r.low == nullptr) {
    return move_whole<kFormula>(weight, m, grad, count, r.f32, rounding, weight_rounding);
  }
  return move_split<kFormula>(weight, r.low + r.begin, m, grad, count, r.f32, rounding);
}

template <OneMoment kFormula, class G>
bool momentum_with(const AdamWRange& r) {
  const G* grad = static_cast<const G*>(r.grad) + r.begin;
  if (r.weight_dtype == DType::kF64) {
    return move_whole<kFormula>(static_cast<double*>(r.weight) + r.begin,
                                static_cast<double*>(r.m) + r.begin, grad, r.end - r.begin, r.f64,
                                Rounding{}, Rounding{});
  }
  return r.moment_dtype == DType::kBF16 ? momentum_f32<kFormula, Bf16>(r, grad)
                                        : momentum_f32<kFormula, float>(r, grad);
}

template <OneMoment kFormula>
bool momentum(const AdamWRange& r) {
  switch (r.grad_dtype) {
    case DType::kF64: return momentum_with<kFormula, double>(r);
    case DType::kF32: return momentum_with<kFormula, float>(r);
    default: return momentum_with<kFormula, Bf16>(r);
  }
}

}  // namespace
}  // namespace strata::cpu
