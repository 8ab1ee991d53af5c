// Checks of AdamW, compared bit by bit with the written sequence of operations: std::fma, one
// number at a time.

#include <bit>
#include <cmath>
#include <limits>

#include "strata/base/log.h"
#include "strata/base/random.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

template <class A>
struct Element {
  A w, m, v;
};

template <class A>
Element<A> step(Element<A> e, A grad, const AdamWScalars& s, double weight_decay) {
  const A g = grad * static_cast<A>(s.grad_factor);
  e.m = std::fma(static_cast<A>(s.beta1), e.m, static_cast<A>(1 - s.beta1) * g);
  const A part = static_cast<A>(1 - s.beta2) * g;
  e.v = std::fma(static_cast<A>(s.beta2), e.v, part * g);
  const A root = std::sqrt(e.v / static_cast<A>(s.correction2));
  const A u = (e.m / static_cast<A>(s.correction1)) / (root + static_cast<A>(s.eps));
  e.w = std::fma(-static_cast<A>(s.lr * weight_decay), e.w, e.w);
  e.w = std::fma(-static_cast<A>(s.lr), u, e.w);
  return e;
}

/// x as bf16, up in magnitude if its lower 16 bits and the random ones carry.
template <class A>
A stochastic(A x, std::uint32_t random) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const std::uint32_t carry = (bits & 0xffffu) + random > 0xffffu ? 0x10000u : 0u;
  return static_cast<A>(std::bit_cast<float>((bits & 0xffff0000u) + carry));
}

/// r of strata/ops/optimizer.h.
std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::size_t i) {
  const std::uint64_t key = random_bits(seed, stream, i / 4096);
  auto x = static_cast<std::uint32_t>((key & 0xffffffffu) + (i % 4096) * 0x9e3779b9u);
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return (x ^ (x >> 16)) ^ static_cast<std::uint32_t>(key >> 32);
}

/// Numbers of all magnitudes: normal ones, and every 8th denormal, tiny, huge, infinite or NaN.
std::vector<double> wild_values(std::uint64_t stream, std::int64_t n, DType dtype, bool positive) {
  const double tiny = dtype == DType::kF64 ? 0x1p-1060 : 0x1p-130;  // denormal
  const double huge = dtype == DType::kF64 ? 0x1p1000 : 0x1p120;
  const double special[] = {tiny,
                            -tiny,
                            0.0,
                            -0.0,
                            huge,
                            -huge,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  std::vector<double> values = random_values(stream, n, dtype);
  const auto picks = random_integers(stream + 100, n, 64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (picks[i] < 8) values[i] = special[static_cast<std::size_t>(picks[i])];
    if (positive) values[i] = std::abs(values[i]);
  }
  return values;
}

/// The two halves of a split f32, found by the definition of strata/ops/optimizer.h.
struct Halves {
  double high, low;
};
Halves split(double w) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(w));
  const std::uint32_t high = (bits + 0x8000u) >> 16;
  const auto low = static_cast<std::int32_t>(bits - (high << 16));
  const float high_value = std::bit_cast<float>((high & 0xffffu) << 16);
  return {high_value, static_cast<double>(low)};
}

template <class A>
Outputs check_as(OpRunner& runner, const AdamWCase& c) {
  const DType a = kDTypeOf<A>;
  const auto [weight_dtype, moment_dtype, grad_dtype, n, rounding_begin] = c;
  const bool is_split = weight_dtype == DType::kBF16;
  std::vector<double> w = wild_values(1, n, a, false);
  // The halves of a NaN cannot be uploaded as numbers; its bits are tested by themselves.
  for (double& x : w) x = is_split && std::isnan(x) ? 1.5 : x;
  const auto m = wild_values(2, n, moment_dtype, false);
  const auto v = wild_values(3, n, moment_dtype, true);
  std::vector<Element<A>> state(w.size());
  std::vector<double> high = w;
  std::vector<double> low(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    state[i] = {static_cast<A>(w[i]), static_cast<A>(m[i]), static_cast<A>(v[i])};
    if (is_split) {
      high[i] = split(w[i]).high;
      low[i] = split(w[i]).low;
    }
  }
  AdamW op;
  op.weight = runner.upload(high, weight_dtype, {n});
  if (is_split) op.low = runner.upload(low, DType::kI16, {n});
  op.m = runner.upload(m, moment_dtype, {n});
  op.v = runner.upload(v, moment_dtype, {n});
  op.weight_decay = 0.1;
  op.rounding_stream = 77;
  op.rounding_begin = rounding_begin;
  op.nonfinite = runner.upload({0}, DType::kI32, {1});
  bool all_finite = true;
  for (int t = 1; t <= 3; ++t) {
    AdamWScalars s{.lr = 3e-4 * t, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    s.correction1 = 1 - std::pow(s.beta1, t);
    s.correction2 = 1 - std::pow(s.beta2, t);
    s.grad_factor = t == 2 ? 0.73 : 1.0;
    s.rounding_seed = static_cast<std::uint64_t>(1000 + t);
    const auto grad = wild_values(static_cast<std::uint64_t>(10 + t), n, grad_dtype, false);
    op.grad = runner.upload(grad, grad_dtype, {n});
    op.scalars = static_cast<const AdamWScalars*>(runner.upload_bytes(&s, sizeof s));
    runner.run(op);
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i] = step(state[i], static_cast<A>(grad[i]), s, op.weight_decay);
      all_finite = all_finite && std::isfinite(state[i].w);
      if (moment_dtype != DType::kBF16) continue;
      const std::uint32_t random = rounding_bits(s.rounding_seed, op.rounding_stream,
                                                 static_cast<std::size_t>(rounding_begin) + i);
      state[i].m = stochastic(state[i].m, random % 0x10000u);
      state[i].v = stochastic(state[i].v, random / 0x10000u);
    }
  }
  Outputs got{runner.download(op.weight), runner.download(op.m), runner.download(op.v),
              is_split ? runner.download(op.low) : std::vector<double>{}};
  Outputs expected(4);
  for (const Element<A>& e : state) {
    expected[0].push_back(is_split ? split(e.w).high : static_cast<double>(e.w));
    expected[1].push_back(e.m);
    expected[2].push_back(e.v);
    if (is_split) expected[3].push_back(split(e.w).low);
  }
  for (std::size_t i = 0; is_split && i < state.size(); ++i) {
    if (!std::isnan(state[i].w)) continue;  // a NaN's payload is not part of the contract
    got[0][i] = expected[0][i];
    got[3][i] = expected[3][i];
  }
  runner.require_equal("weight", got[0], expected[0]);
  runner.require_equal("m", got[1], expected[1]);
  runner.require_equal("v", got[2], expected[2]);
  runner.require_equal("low", got[3], expected[3]);
  if (runner.download(op.nonfinite)[0] != (all_finite ? 0 : 1)) {
    runner.fail("said wrongly whether all weights are finite");
  }
  return got;
}

}  // namespace

Outputs check_adamw(OpRunner& runner, const AdamWCase& c) {
  runner.reset(fmt::format("{} {} weights, {} moments, {} gradients, from {}", c.elements,
                           name_of(c.weight), name_of(c.moments), name_of(c.grad),
                           c.rounding_begin));
  return c.weight == DType::kF64 ? check_as<double>(runner, c) : check_as<float>(runner, c);
}

}  // namespace strata
