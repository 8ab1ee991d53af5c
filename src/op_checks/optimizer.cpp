// Checks of updates, compared bit by bit with the written sequences of operations.

#include <bit>
#include <cmath>

#include "op_checks/adamw_reference.h"
#include "strata/base/log.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// Whether an update keeps two moments.
template <class O>
constexpr bool kHasSecond = requires(O op) { op.v; };

/// Checks three updates by an operator; `next` moves an element as its formula says.
template <class A, class O, class Next>
Outputs check_updates(OpRunner& runner, const AdamWCase& c, O op, const Next& next) {
  const auto [weight_dtype, moment_dtype, grad_dtype, n, rounding_begin, split] = c;
  const bool rounds = weight_dtype == DType::kBF16 && !split;
  std::vector<double> w = wild_values(1, n, rounds ? weight_dtype : kDTypeOf<A>, false);
  // The halves of a NaN cannot be uploaded as numbers; its bits are tested by themselves.
  for (double& x : w) x = weight_dtype == DType::kBF16 && std::isnan(x) ? 1.5 : x;
  const auto m = wild_values(2, n, moment_dtype, false);
  const auto v = wild_values(3, n, moment_dtype, true);
  std::vector<Element<A>> state(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    state[i] = {static_cast<A>(w[i]), static_cast<A>(m[i]), static_cast<A>(v[i])};
  }
  upload_weights(runner, w, c, op);
  op.m = runner.upload(m, moment_dtype, {n});
  if constexpr (kHasSecond<O>) op.v = runner.upload(v, moment_dtype, {n});
  op.lr_factor = 0.7;
  op.weight_decay = 0.1;
  op.rounding_stream = 77;
  op.rounding_begin = rounding_begin;
  op.nonfinite = runner.upload({0}, DType::kI32, {1});
  bool all_finite = true;
  for (int t = 1; t <= 3; ++t) {
    const AdamWScalars s = scalars_of_update(t);
    const auto grad = wild_values(static_cast<std::uint64_t>(10 + t), n, grad_dtype, false);
    op.grad = runner.upload(grad, grad_dtype, {n});
    op.scalars = static_cast<const AdamWScalars*>(runner.upload_bytes(&s, sizeof s));
    runner.run(op);
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i] = next(state[i], static_cast<A>(grad[i]), s, op);
      all_finite = all_finite && std::isfinite(state[i].w);
      if (rounds) {
        state[i].w = static_cast<A>(only_bf16(static_cast<float>(state[i].w), s, op, i));
      }
      if (moment_dtype != DType::kBF16) continue;
      const std::uint32_t random = rounding_bits(s.rounding_seed, op.rounding_stream,
                                                 static_cast<std::size_t>(rounding_begin) + i);
      state[i].m = stochastic(state[i].m, random % 0x10000u);
      state[i].v = stochastic(state[i].v, random / 0x10000u);
    }
  }
  std::vector<double> expected_w, expected_m, expected_v;
  for (const Element<A>& e : state) {
    expected_w.push_back(static_cast<double>(e.w));
    expected_m.push_back(static_cast<double>(e.m));
    expected_v.push_back(static_cast<double>(e.v));
  }
  runner.require_equal("m", op.m, expected_m);
  if constexpr (kHasSecond<O>) runner.require_equal("v", op.v, expected_v);
  require_weights(runner, op, expected_w, all_finite);
  return runner.outputs();
}

template <class A>
Outputs check_adamw_as(OpRunner& runner, const AdamWCase& c) {
  return check_updates<A>(runner, c, AdamW{}, step<A>);
}

/// Moves an element by an optimizer with one moment, by the formulas of strata/ops/optimizer.h.
template <class A>
Element<A> moved(Element<A> e, A grad, const AdamWScalars& s, const Momentum& op) {
  const A g = grad * static_cast<A>(s.grad_factor);
  const A beta1 = static_cast<A>(s.beta1);
  A u = 0;
  if (op.formula == MomentumFormula::kLion) {
    const A mixed = std::fma(beta1, e.m, static_cast<A>(1 - s.beta1) * g);
    u = mixed;
    if (mixed > 0) u = 1;
    if (mixed < 0) u = -1;
    e.m = std::fma(static_cast<A>(s.beta2), e.m, static_cast<A>(1 - s.beta2) * g);
  } else {
    e.m = std::fma(beta1, e.m, g);
    u = op.formula == MomentumFormula::kNesterov ? std::fma(beta1, e.m, g) : e.m;
  }
  const double lr = s.lr * op.lr_factor;
  e.w = std::fma(-static_cast<A>(lr * op.weight_decay), e.w, e.w);
  e.w = std::fma(-static_cast<A>(lr), u, e.w);
  return e;
}

template <class A>
Outputs check_momentum_as(OpRunner& runner, MomentumFormula formula, const AdamWCase& c) {
  Momentum of_formula;
  of_formula.formula = formula;
  return check_updates<A>(runner, c, of_formula, moved<A>);
}

}  // namespace

Outputs check_adamw(OpRunner& runner, const AdamWCase& c) {
  runner.reset(fmt::format("{} {} weights{}, {} moments, {} gradients, from {}", c.elements,
                           name_of(c.weight), c.split ? "" : " alone", moment_name(c.moments),
                           name_of(c.grad), c.rounding_begin));
  if (c.moments == kMomentCode) return check_adamw_with_codes(runner, c);
  return c.weight == DType::kF64 ? check_adamw_as<double>(runner, c)
                                 : check_adamw_as<float>(runner, c);
}

Outputs check_momentum(OpRunner& runner, MomentumFormula formula, const AdamWCase& c) {
  runner.reset(fmt::format("formula {}, {} {} weights{}, {} moments, {} gradients, from {}",
                           static_cast<int>(formula), c.elements, name_of(c.weight),
                           c.split ? "" : " alone", moment_name(c.moments), name_of(c.grad),
                           c.rounding_begin));
  return c.weight == DType::kF64 ? check_momentum_as<double>(runner, formula, c)
                                 : check_momentum_as<float>(runner, formula, c);
}

}  // namespace strata
