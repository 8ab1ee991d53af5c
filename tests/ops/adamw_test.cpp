// Tests updates on the host: the same bits on every instruction set for any input bits, the split
// master, and bf16 moments that are right on average.

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/operators.h"
#include "strata/base/random.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/typed_values.h"

namespace strata::test {
namespace {

/// Any 32 bits: with all exponents, denormals, infinities and NaNs among them.
std::vector<float> any_floats(std::uint64_t stream, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(7, stream, i) >> 32));
  }
  return out;
}

struct AdamWState {
  std::vector<Bf16> high;
  std::vector<std::int16_t> low;
  std::vector<float> m, v;
  std::int32_t nonfinite = 0;
};

AdamWState adamw_step(const cpu::SimdKernels& simd, AdamWState state,
                      const std::vector<float>& grad, const AdamWScalars& scalars) {
  ThreadPool pool(2);
  const Shape shape{static_cast<std::int64_t>(grad.size())};
  cpu::execute({pool, simd}, AdamW{.weight = TensorView(state.high.data(), DType::kBF16, shape),
                                   .low = TensorView(state.low.data(), DType::kI16, shape),
                                   .m = TensorView(state.m.data(), DType::kF32, shape),
                                   .v = TensorView(state.v.data(), DType::kF32, shape),
                                   .grad = ConstTensorView(grad.data(), DType::kF32, shape),
                                   .scalars = &scalars,
                                   .weight_decay = 0.1,
                                   .nonfinite = TensorView(&state.nonfinite, DType::kI32, {1})});
  return state;
}

AdamWState state_of(const std::vector<std::uint32_t>& weight_bits) {
  AdamWState state;
  for (const std::uint32_t bits : weight_bits) {
    Bf16 high;
    high.bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    state.high.push_back(high);
    state.low.push_back(static_cast<std::int16_t>(bits));
  }
  state.m.resize(weight_bits.size());
  state.v.resize(weight_bits.size());
  return state;
}

TEST_CASE("adamw has the same bits on every instruction set for any input bits", "[ops]") {
  constexpr std::size_t kCount = 50021;
  const AdamWScalars scalars{.lr = 1e-3, .correction1 = 0.1, .correction2 = 0.05};
  std::vector<std::uint32_t> weights;
  for (const float w : any_floats(1, kCount)) weights.push_back(std::bit_cast<std::uint32_t>(w));
  AdamWState start = state_of(weights);
  start.m = any_floats(2, kCount);
  start.v = any_floats(3, kCount);
  const auto grad = any_floats(4, kCount);
  const auto joined = [](const AdamWState& s, std::size_t i) {
    const auto bits =
        (std::uint32_t{s.high[i].bits} << 16) + static_cast<std::uint32_t>(std::int32_t{s.low[i]});
    return std::bit_cast<float>(bits);
  };
  const auto same = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  };
  const AdamWState portable = adamw_step(cpu::kPortable, start, grad, scalars);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    const AdamWState got = adamw_step(*simd, start, grad, scalars);
    REQUIRE(got.nonfinite == 1);
    std::size_t different = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const bool equal = same(joined(got, i), joined(portable, i)) &&
                         same(got.m[i], portable.m[i]) && same(got.v[i], portable.v[i]);
      different += equal ? 0 : 1;
    }
    REQUIRE(different == 0);
  }
}

TEST_CASE("the split master keeps every pattern of finite bits", "[ops]") {
  std::vector<std::uint32_t> patterns;
  for (std::uint32_t high = 0; high < 0x10000u; high += 7) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = (high << 16) | low;
      if ((bits & 0x7f800000u) != 0x7f800000u) patterns.push_back(bits);
    }
  }
  patterns.insert(patterns.end(), {0x7f7fffffu, 0xff7fffffu, 0x00000001u, 0x80000001u});
  const std::vector<float> grad(patterns.size());
  const AdamWScalars scalars{.lr = 0};  // an update that changes nothing, but joins and splits
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    const AdamWState start = state_of(patterns);
    const AdamWState got = adamw_step(*simd, start, grad, scalars);
    REQUIRE(got.nonfinite == 0);
    REQUIRE(same_bits(got.high, start.high));
    REQUIRE(same_bits(got.low, start.low));
  }
}

TEST_CASE("a skipped adamw step changes nothing and a finite one leaves the flag", "[ops]") {
  AdamWState start = state_of({0x3f800000u, 0x40000123u});
  start.nonfinite = 5;
  const std::vector<float> grad{1.0f, std::numeric_limits<float>::infinity()};
  const AdamWState skipped = adamw_step(cpu::kPortable, start, grad, {.lr = 1, .apply = 0});
  REQUIRE(same_bits(skipped.high, start.high));
  REQUIRE(same_bits(skipped.low, start.low));
  REQUIRE(same_bits(skipped.m, start.m));
  REQUIRE(skipped.nonfinite == 5);
  const AdamWState finite = adamw_step(cpu::kPortable, start, {1.0f, 2.0f}, {.lr = 1});
  REQUIRE(finite.nonfinite == 5);
  REQUIRE(!same_bits(finite.high, start.high));
}

TEST_CASE("adamw of whole f32 and f64 weights has the same bits on every instruction set",
          "[ops]") {
  constexpr std::size_t kCount = 9001;
  ThreadPool pool(2);
  const Shape shape{kCount};
  const AdamWScalars scalars{.lr = 1e-2, .correction1 = 0.1, .correction2 = 0.05};
  const auto run = [&]<class A>(const cpu::SimdKernels& simd, A) {
    auto state = typed<A>(random_values(1, 3 * kCount, kDTypeOf<A>));  // w, m and v
    for (std::size_t i = 2 * kCount; i < 3 * kCount; ++i) state[i] = std::abs(state[i]);
    const auto grad = typed<Bf16>(random_values(2, kCount, DType::kBF16));
    std::int32_t nonfinite = 0;
    const auto part = [&](std::size_t index) {
      return TensorView(state.data() + index * kCount, kDTypeOf<A>, shape);
    };
    cpu::execute({pool, simd}, AdamW{.weight = part(0),
                                     .low = {},
                                     .m = part(1),
                                     .v = part(2),
                                     .grad = ConstTensorView(grad.data(), DType::kBF16, shape),
                                     .scalars = &scalars,
                                     .weight_decay = 0.1,
                                     .nonfinite = TensorView(&nonfinite, DType::kI32, {1})});
    REQUIRE(nonfinite == 0);
    return state;
  };
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    REQUIRE(same_bits(run(*simd, float{}), run(cpu::kPortable, float{})));
    REQUIRE(same_bits(run(*simd, double{}), run(cpu::kPortable, double{})));
  }
}

/// Moments of parameters whose new m is 1 + 2^-9, a quarter of the way between bf16 numbers, and
/// whose new v is its square, nearly half of the way.
struct Rounded {
  std::vector<Bf16> m, v;
};
Rounded rounded_moments(const cpu::SimdKernels& simd, std::uint64_t seed, std::uint64_t stream) {
  constexpr std::size_t kCount = 1 << 17;
  ThreadPool pool(2);
  const Shape shape{kCount};
  const AdamWScalars scalars{.lr = 0, .beta1 = 0, .beta2 = 0, .rounding_seed = seed};
  Rounded moments{std::vector<Bf16>(kCount), std::vector<Bf16>(kCount)};
  std::vector<float> weight(kCount);
  const std::vector<float> grad(kCount, 1 + 0x1p-9f);
  std::int32_t nonfinite = 0;
  cpu::execute({pool, simd}, AdamW{.weight = TensorView(weight.data(), DType::kF32, shape),
                                   .low = {},
                                   .m = TensorView(moments.m.data(), DType::kBF16, shape),
                                   .v = TensorView(moments.v.data(), DType::kBF16, shape),
                                   .grad = ConstTensorView(grad.data(), DType::kF32, shape),
                                   .scalars = &scalars,
                                   .rounding_stream = stream,
                                   .nonfinite = TensorView(&nonfinite, DType::kI32, {1})});
  return moments;
}

TEST_CASE("bf16 moments of adamw are right on average, and m and v are drawn apart", "[ops]") {
  const Rounded moments = rounded_moments(cpu::kPortable, 1, 2);
  const double count = static_cast<double>(moments.m.size());
  double m_up = 0;
  double v_up = 0;
  double both_up = 0;
  std::size_t others = 0;  // neither of the two numbers next to the exact one
  for (std::size_t i = 0; i < moments.m.size(); ++i) {
    const auto m = static_cast<float>(moments.m[i]);
    const auto v = static_cast<float>(moments.v[i]);
    others += m == 1 || m == 1 + 0x1p-7f ? 0 : 1;
    others += v == 1 || v == 1 + 0x1p-7f ? 0 : 1;
    m_up += m > 1 ? 1 : 0;
    v_up += v > 1 ? 1 : 0;
    both_up += m > 1 && v > 1 ? 1 : 0;
  }
  CHECK(others == 0);
  const double v_chance = (0x1p-8 + 0x1p-18) / 0x1p-7;
  const double five_sigma = 5 * 0.5 / std::sqrt(count);
  CHECK(std::abs(m_up / count - 0.25) < five_sigma);
  CHECK(std::abs(v_up / count - v_chance) < five_sigma);
  CHECK(std::abs(both_up / count - 0.25 * v_chance) < five_sigma);
}

TEST_CASE("bf16 moments of adamw are drawn by seed, stream and element, on every instruction set",
          "[ops]") {
  const Rounded moments = rounded_moments(cpu::kPortable, 1, 2);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    REQUIRE(same_bits(rounded_moments(*simd, 1, 2).m, moments.m));
    REQUIRE(same_bits(rounded_moments(*simd, 1, 2).v, moments.v));
  }
  CHECK(!same_bits(rounded_moments(cpu::kPortable, 2, 2).m, moments.m));
  CHECK(!same_bits(rounded_moments(cpu::kPortable, 1, 3).m, moments.m));
  const auto block = [&](std::ptrdiff_t i) {
    return std::vector<Bf16>(moments.m.begin() + 4096 * i, moments.m.begin() + 4096 * (i + 1));
  };
  CHECK(!same_bits(block(0), block(1)));
}

TEST_CASE("weights without low halves are right on average, and drawn apart from moments",
          "[ops]") {
  constexpr std::size_t kCount = 1 << 17;
  ThreadPool pool(2);
  const Shape shape{kCount};
  // m becomes 1 + 2^-9 and the weight too: a quarter of the way between bf16 numbers.
  const AdamWScalars scalars{.lr = 0x1p-9, .beta1 = 0, .beta2 = 0, .eps = 0, .rounding_seed = 1};
  const std::vector<float> grad(kCount, -(1 + 0x1p-9f));
  std::int32_t nonfinite = 0;
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    std::vector<Bf16> weight(kCount);
    for (Bf16& w : weight) w.bits = 0x3f80;  // 1
    std::vector<Bf16> m(kCount), v(kCount);
    cpu::execute({pool, *simd}, AdamW{.weight = TensorView(weight.data(), DType::kBF16, shape),
                                      .low = {},
                                      .m = TensorView(m.data(), DType::kBF16, shape),
                                      .v = TensorView(v.data(), DType::kBF16, shape),
                                      .grad = ConstTensorView(grad.data(), DType::kF32, shape),
                                      .scalars = &scalars,
                                      .nonfinite = TensorView(&nonfinite, DType::kI32, {1})});
    double up = 0;
    double both_up = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto w = static_cast<float>(weight[i]);
      others += w == 1 || w == 1 + 0x1p-7f ? 0 : 1;
      up += w > 1 ? 1 : 0;
      both_up += w > 1 && static_cast<float>(m[i]) < -1 ? 1 : 0;
    }
    CHECK(others == 0);
    const double five_sigma = 5 * 0.5 / std::sqrt(static_cast<double>(kCount));
    CHECK(std::abs(up / kCount - 0.25) < five_sigma);
    CHECK(std::abs(both_up / kCount - 0.25 * 0.25) < five_sigma);
  }
}

TEST_CASE("lion and sgd have the same bits on every instruction set for any input bits", "[ops]") {
  constexpr std::size_t kCount = 9001;
  ThreadPool pool(2);
  const Shape shape{kCount};
  const AdamWScalars scalars{.lr = 1e-2, .grad_factor = 0.7};
  const std::vector<float> grad = any_floats(4, kCount);
  for (const auto formula :
       {MomentumFormula::kLion, MomentumFormula::kSgd, MomentumFormula::kNesterov}) {
    const auto run = [&](const cpu::SimdKernels& simd) {
      std::vector<float> weight = any_floats(1, kCount);
      std::vector<float> m = any_floats(2, kCount);
      std::int32_t nonfinite = 0;
      cpu::execute({pool, simd}, Momentum{.formula = formula,
                                          .weight = TensorView(weight.data(), DType::kF32, shape),
                                          .low = {},
                                          .m = TensorView(m.data(), DType::kF32, shape),
                                          .grad = ConstTensorView(grad.data(), DType::kF32, shape),
                                          .scalars = &scalars,
                                          .weight_decay = 0.1,
                                          .nonfinite = TensorView(&nonfinite, DType::kI32, {1})});
      weight.insert(weight.end(), m.begin(), m.end());
      for (float& x : weight) x = std::isnan(x) ? 1.5f : x;  // payloads are no part of the contract
      return weight;
    };
    for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
      INFO(simd->name);
      REQUIRE(same_bits(run(*simd), run(cpu::kPortable)));
    }
  }
}

}  // namespace
}  // namespace strata::test
