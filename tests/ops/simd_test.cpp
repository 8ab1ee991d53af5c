// The variants of the inner loops for each instruction set give the same bits, and so do matmuls
// that are cut differently.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/operators.h"
#include "strata/base/random.h"
#include "support/catch.h"
#include "support/op_reference.h"

namespace strata::test {
namespace {

template <class T>
std::vector<T> typed(const std::vector<double>& values) {
  std::vector<T> out;
  for (const double x : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      out.push_back(Bf16(static_cast<float>(x)));
    } else {
      out.push_back(static_cast<T>(x));
    }
  }
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Any 32 bits: with all exponents, denormals, infinities and NaNs among them.
std::vector<float> any_floats(std::uint64_t stream, std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(7, stream, i) >> 32));
  }
  return out;
}

TEST_CASE("matmul is one fma chain per element on every instruction set", "[ops]") {
  constexpr std::int64_t kM = 29;
  constexpr std::int64_t kN = 71;
  constexpr std::int64_t kK = 601;  // several blocks of k
  const auto a = typed<float>(random_values(1, kM * kK, DType::kF32));
  const auto b = typed<float>(random_values(2, kN * kK, DType::kF32));
  std::vector<float> chain(kM * kN);
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t n = 0; n < kN; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < kK; ++k) {
        sum = std::fma(a[static_cast<std::size_t>(m * kK + k)],
                       b[static_cast<std::size_t>(n * kK + k)], sum);
      }
      chain[static_cast<std::size_t>(m * kN + n)] = sum;
    }
  }
  ThreadPool pool(2);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    std::vector<float> out(chain.size());
    cpu::execute({pool, *simd}, Matmul{.a = ConstTensorView(a.data(), DType::kF32, {kM, kK}),
                                       .b = ConstTensorView(b.data(), DType::kF32, {kN, kK}),
                                       .out = TensorView(out.data(), DType::kF32, {kM, kN})});
    REQUIRE(same_bits(out, chain));
  }
}

template <class X, class A>
void check_split_product(std::int64_t first) {
  constexpr std::int64_t kM = 50;
  constexpr std::int64_t kN = 37;
  constexpr std::int64_t kK = 530;
  const auto a = typed<X>(random_values(1, kK * kM, kDTypeOf<X>));
  const auto b = typed<X>(random_values(2, kK * kN, kDTypeOf<X>));
  const auto before = typed<A>(random_values(3, kM * kN, kDTypeOf<A>));
  ThreadPool pool(2);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name << ", " << name_of(kDTypeOf<X>) << ", cut at " << first);
    std::vector<A> whole = before;
    std::vector<A> parts = before;
    Matmul op{.a = ConstTensorView(a.data(), kDTypeOf<X>, {kK, kM}),
              .b = ConstTensorView(b.data(), kDTypeOf<X>, {kK, kN}),
              .out = TensorView(whole.data(), kDTypeOf<A>, {kM, kN}),
              .layout = MatmulLayout::kTN,
              .update = MatmulUpdate::kAccumulate};
    cpu::execute({pool, *simd}, op);
    Matmul part = op;
    part.out.data = parts.data();
    part.a = op.a.slice_rows(0, first);
    part.b = op.b.slice_rows(0, first);
    cpu::execute({pool, *simd}, part);
    part.a = op.a.slice_rows(first, kK - first);
    part.b = op.b.slice_rows(first, kK - first);
    cpu::execute({pool, *simd}, part);
    REQUIRE(same_bits(whole, parts));
  }
}

TEST_CASE("a product that is split over k and accumulated has the bits of the whole", "[ops]") {
  for (const std::int64_t first : {1, 255, 256, 300}) {
    check_split_product<double, double>(first);
    check_split_product<float, float>(first);
    check_split_product<Bf16, float>(first);
  }
}

TEST_CASE("an element of a product does not depend on the other rows and columns", "[ops]") {
  constexpr std::int64_t kM = 300;
  constexpr std::int64_t kN = 430;
  constexpr std::int64_t kK = 70;
  const auto a = typed<float>(random_values(1, kM * kK, DType::kF32));
  const auto b = typed<float>(random_values(2, kN * kK, DType::kF32));
  ThreadPool pool(3);
  const cpu::Context context{pool, *cpu::usable_simd().back()};
  std::vector<float> whole(kM * kN);
  const Matmul op{.a = ConstTensorView(a.data(), DType::kF32, {kM, kK}),
                  .b = ConstTensorView(b.data(), DType::kF32, {kN, kK}),
                  .out = TensorView(whole.data(), DType::kF32, {kM, kN})};
  cpu::execute(context, op);
  constexpr std::int64_t kRow = 257;
  constexpr std::int64_t kColumn = 401;
  std::vector<float> corner(5 * 7);
  Matmul small = op;
  small.a = op.a.slice_rows(kRow, 5);
  small.b = op.b.slice_rows(kColumn, 7);
  small.out = TensorView(corner.data(), DType::kF32, {5, 7});
  cpu::execute(context, small);
  for (std::int64_t m = 0; m < 5; ++m) {
    REQUIRE(std::memcmp(corner.data() + m * 7, whole.data() + (kRow + m) * kN + kColumn,
                        7 * sizeof(float)) == 0);
  }
}

TEST_CASE("attention has the same bits on every instruction set", "[ops]") {
  constexpr std::int64_t kT = 70;
  constexpr std::int64_t kD = 40;
  const auto qkv = typed<float>(random_values(1, kT * 3 * kD, DType::kF32));
  const auto d_o = typed<float>(random_values(2, kT * kD, DType::kF32));
  ThreadPool pool(1);
  std::vector<float> portable;
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    std::vector<float> out(kT * kD * 4 + 2 * kT);
    const auto tensor = [](auto* data, std::int64_t stride) {
      return TensorView(const_cast<float*>(data), DType::kF32, {kT, 1, kD}, stride);
    };
    const auto numbers = [&](std::size_t index) {
      return TensorView(out.data() + kT * kD * 4 + index * kT, DType::kF32, {1, kT});
    };
    AttentionForward forward{.q = tensor(qkv.data(), 3 * kD),
                             .k = tensor(qkv.data() + kD, 3 * kD),
                             .v = tensor(qkv.data() + 2 * kD, 3 * kD),
                             .segments = {},
                             .o = tensor(out.data(), kD),
                             .lse = numbers(0),
                             .scale = 0.2};
    forward.segments.uniform_length = kT;
    cpu::execute({pool, *simd}, forward);
    cpu::execute({pool, *simd}, AttentionBackward{.d_o = tensor(d_o.data(), kD),
                                                  .q = forward.q,
                                                  .k = forward.k,
                                                  .v = forward.v,
                                                  .o = forward.o,
                                                  .lse = forward.lse,
                                                  .segments = forward.segments,
                                                  .dq = tensor(out.data() + kT * kD, kD),
                                                  .dk = tensor(out.data() + 2 * kT * kD, kD),
                                                  .dv = tensor(out.data() + 3 * kT * kD, kD),
                                                  .delta = numbers(1),
                                                  .scale = 0.2});
    if (portable.empty()) portable = out;
    REQUIRE(same_bits(out, portable));
  }
}

TEST_CASE("exp of f32 is within 1.5 units in the last place, the same on every instruction set",
          "[ops]") {
  std::vector<float> x;
  for (double value = -110; value < 95; value += 0.00137) x.push_back(static_cast<float>(value));
  const std::size_t finite = x.size();
  const float infinity = std::numeric_limits<float>::infinity();
  x.insert(x.end(),
           {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 0.0f, -1000.0f, 1000.0f});
  std::vector<float> portable = x;
  cpu::kPortable.exp_f32(portable.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < finite; ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (exact > std::numeric_limits<float>::max()) {
      REQUIRE(portable[i] == infinity);
      continue;
    }
    const int exponent = std::max(std::ilogb(exact), -126);  // denormals share one unit
    worst = std::max(worst, std::abs(portable[i] - exact) / std::ldexp(1.0, exponent - 23));
  }
  INFO("worst error " << worst);
  REQUIRE(worst <= 1.5);
  REQUIRE(portable[finite] == infinity);
  REQUIRE(portable[finite + 1] == 0);
  REQUIRE(std::isnan(portable[finite + 2]));
  REQUIRE(portable[finite + 3] == 1);
  REQUIRE(portable[finite + 4] == 0);
  REQUIRE(portable[finite + 5] == infinity);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    std::vector<float> y = x;
    simd->exp_f32(y.data(), static_cast<std::int64_t>(y.size()));
    require_equal("exp", std::vector<double>(y.begin(), y.end()),
                  std::vector<double>(portable.begin(), portable.end()));
  }
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

}  // namespace
}  // namespace strata::test
