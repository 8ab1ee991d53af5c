// What the checks of updates share: AdamW's sequence of operations of strata/ops/optimizer.h,
// written with std::fma for one number at a time, and how weights are placed and compared.

#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/op_checks/checks.h"
#include "strata/op_checks/op_runner.h"
#include "strata/ops/optimizer.h"

namespace strata {

template <class A>
struct Element {
  A w, m, v;
};

template <class A>
Element<A> step(Element<A> e, A grad, const AdamWScalars& s, const AdamW& op) {
  const A g = grad * static_cast<A>(s.grad_factor);
  e.m = std::fma(static_cast<A>(s.beta1), e.m, static_cast<A>(1 - s.beta1) * g);
  const A part = static_cast<A>(1 - s.beta2) * g;
  e.v = std::fma(static_cast<A>(s.beta2), e.v, part * g);
  const A root = std::sqrt(e.v / static_cast<A>(s.correction2));
  const A u = (e.m / static_cast<A>(s.correction1)) / (root + static_cast<A>(s.eps));
  const double lr = s.lr * op.lr_factor;
  e.w = std::fma(-static_cast<A>(lr * op.weight_decay), e.w, e.w);
  e.w = std::fma(-static_cast<A>(lr), u, e.w);
  return e;
}

/// r of strata/ops/optimizer.h.
[[nodiscard]] std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::size_t i);
/// x as bf16, up in magnitude if its lower 16 bits and the random ones carry.
template <class A>
A stochastic(A x, std::uint32_t random) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const std::uint32_t carry = (bits & 0xffffu) + random > 0xffffu ? 0x10000u : 0u;
  return static_cast<A>(std::bit_cast<float>((bits & 0xffff0000u) + carry));
}

/// Returns numbers of all magnitudes: normal ones, and every 8th denormal, tiny, huge, infinite or
/// NaN.
[[nodiscard]] std::vector<double> wild_values(std::uint64_t stream, std::int64_t n, DType dtype,
                                              bool positive);

/// Returns the scalars of update t, counted from 1. The second one clips.
[[nodiscard]] AdamWScalars scalars_of_update(int t);

/// Returns w as an update that has no low halves stores element `i` of its run: rounded by random
/// bits of its own.
template <class Update>
float only_bf16(float w, const AdamWScalars& s, const Update& op, std::size_t i) {
  const std::uint32_t random =
      rounding_bits(s.rounding_seed, op.rounding_stream ^ AdamW::kWeightStream,
                    static_cast<std::size_t>(op.rounding_begin) + i);
  return stochastic(w, random % 0x10000u);
}

/// Gives an update the weights of a case, in halves if they are split. Update is AdamW or Momentum.
template <class Update>
void upload_weights(OpRunner& runner, const std::vector<double>& w, const AdamWCase& c, Update& op);
/// Requires that the weights have become `w`, and that the operator said whether everything it
/// wrote is finite. The payload of a NaN is not part of the contract.
template <class Update>
void require_weights(OpRunner& runner, const Update& op, const std::vector<double>& w,
                     bool all_finite);

/// check_adamw with moments in 8 bits.
Outputs check_adamw_with_codes(OpRunner& runner, const AdamWCase& c);

}  // namespace strata
