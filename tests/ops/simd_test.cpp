// Tests that the inner loops for each instruction set give the same bits, against plain chains of
// std::fma, and that matmuls that are cut differently do, too.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/operators.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/typed_values.h"

namespace strata::test {
namespace {

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

TEST_CASE("attention to int8 has the same bits on every instruction set", "[ops]") {
  constexpr std::int64_t kKeys = 37;
  constexpr std::int64_t kD = 44;  // whole registers, and what is left of them
  constexpr std::int64_t kHeads = 5;
  std::vector<std::int8_t> levels;
  for (const double level : random_integers(1, 2 * kKeys * kD, 255)) {
    levels.push_back(static_cast<std::int8_t>(level - 127));
  }
  const auto scales = typed<float>(random_values(2, 2 * kKeys, DType::kF32));
  const std::vector<std::int32_t> segment{0, 0, 1, kKeys, kKeys - 1};
  ThreadPool pool(1);
  const auto check = [&]<class T>(DType dtype, T) {
    const auto q = typed<T>(random_values(3, kHeads * kD, dtype));
    std::vector<T> first;
    for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
      INFO(simd->name);
      std::vector<T> o(q.size());
      cpu::execute(
          {pool, *simd},
          AttendInt8Kv{.q = ConstTensorView(q.data(), dtype, {1, kHeads, kD}),
                       .cache = {.k = {levels.data(), DType::kI8, {kKeys, 1, kD}},
                                 .v = {levels.data() + kKeys * kD, DType::kI8, {kKeys, 1, kD}},
                                 .k_scale = {scales.data(), DType::kF32, {kKeys, 1}},
                                 .v_scale = {scales.data() + kKeys, DType::kF32, {kKeys, 1}}},
                       .segments = ConstTensorView(segment.data(), DType::kI32, {1, 5}),
                       .o = TensorView(o.data(), dtype, {1, kHeads, kD}),
                       .scale = 0.01});
      if (first.empty()) first = o;
      REQUIRE(std::memcmp(o.data(), first.data(), o.size() * sizeof(T)) == 0);
    }
  };
  check(DType::kF32, float{});
  check(DType::kF64, double{});
}

/// Returns the sum of 16 lanes as attention adds them: halves onto halves.
float tree(std::array<float, 16> lane) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

/// Single queries over the first `keys` rows, in bf16 or int8; a row has the keys of all kv heads
/// and then their values.
struct SingleQueries {
  std::int64_t heads, kv_heads, width, keys;
  bool int8 = false;
  double scale = 0.1;
  std::vector<Bf16> q = typed<Bf16>(random_values(1, heads* width, DType::kBF16));
  std::vector<Bf16> kv = typed<Bf16>(random_values(2, keys* row(), DType::kBF16));
  std::vector<std::int8_t> levels = typed<std::int8_t>(random_integers(3, keys* row(), 127));
  std::vector<float> scales = typed<float>(random_values(4, keys * 2 * kv_heads, DType::kF32));

  [[nodiscard]] std::int64_t row() const { return 2 * kv_heads * width; }
  [[nodiscard]] float element(std::int64_t key, std::int64_t at) const {
    const auto i = static_cast<std::size_t>(key * row() + at);
    return int8 ? static_cast<float>(levels[i]) : static_cast<float>(kv[i]);
  }

  [[nodiscard]] std::vector<Bf16> run(ThreadPool& pool, const cpu::SimdKernels& simd) const {
    std::vector<Bf16> o(q.size());
    std::vector<float> lse(static_cast<std::size_t>(heads));
    const auto last = static_cast<std::int32_t>(keys);
    const std::vector<std::int32_t> segment{0, 0, 1, last, last - 1};
    const ConstTensorView table(segment.data(), DType::kI32, {1, 5});
    const ConstTensorView query(q.data(), DType::kBF16, {1, heads, width});
    const TensorView out(o.data(), DType::kBF16, {1, heads, width});
    const std::int64_t values = kv_heads * width;
    const Shape shape{keys, kv_heads, width};
    const auto kept = [&](const auto* data, DType dtype) {
      return std::pair{ConstTensorView(data, dtype, shape, row()),
                       ConstTensorView(data + values, dtype, shape, row())};
    };
    if (int8) {
      const auto [k, v] = kept(levels.data(), DType::kI8);
      const Shape of{keys, kv_heads};
      cpu::execute({pool, simd},
                   AttendInt8Kv{.q = query,
                                .cache = {.k = k,
                                          .v = v,
                                          .k_scale = {scales.data(), DType::kF32, of, 2 * kv_heads},
                                          .v_scale = {scales.data() + kv_heads, DType::kF32, of,
                                                      2 * kv_heads}},
                                .segments = table,
                                .o = out,
                                .scale = scale});
    } else {
      const auto [k, v] = kept(kv.data(), DType::kBF16);
      cpu::execute({pool, simd},
                   AttentionForward{.q = query,
                                    .k = k,
                                    .v = v,
                                    .segments = {.table = table},
                                    .o = out,
                                    .lse = TensorView(lse.data(), DType::kF32, {heads, 1}),
                                    .scale = scale});
    }
    return o;
  }

  /// Returns o by loops that write the order of all additions down.
  [[nodiscard]] std::vector<Bf16> expected() const {
    std::vector<Bf16> o;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t kv_head = head / (heads / kv_heads);
      std::vector<float> p;
      for (std::int64_t j = 0; j < keys; ++j) {
        std::array<float, 16> lane{};
        for (std::int64_t d = 0; d < width; ++d) {
          float& sum = lane[static_cast<std::size_t>(d % 16)];
          const auto x = static_cast<float>(q[static_cast<std::size_t>(head * width + d)]);
          sum = std::fma(x, element(j, kv_head * width + d), sum);
        }
        const float factor =
            int8 ? scales[static_cast<std::size_t>(2 * j * kv_heads + kv_head)] : 1;
        p.push_back(tree(lane) * factor * static_cast<float>(scale));
      }
      const float top = *std::ranges::max_element(p);
      for (float& s : p) s -= top;
      cpu::kPortable.exp_f32(p.data(), keys);
      std::array<float, 16> lane{};
      for (std::size_t j = 0; j < p.size(); ++j) lane[j % 16] += p[j];
      for (std::int64_t d = 0; d < width; ++d) {
        float sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          const auto at = static_cast<std::size_t>((2 * j + 1) * kv_heads + kv_head);
          const float weight = p[static_cast<std::size_t>(j)] * (int8 ? scales[at] : 1);
          sum = std::fma(weight, element(j, (kv_heads + kv_head) * width + d), sum);
        }
        o.emplace_back(sum * (1 / tree(lane)));
      }
    }
    return o;
  }

  void check(ThreadPool& pool) const {
    const std::vector<Bf16> all = expected();
    for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
      INFO(simd->name << (int8 ? ", int8, " : ", bf16, ") << heads << "/" << kv_heads
                      << " heads of " << width << ", " << keys << " keys");
      REQUIRE(same_bits(run(pool, *simd), all));
    }
  }
};

TEST_CASE("attention of single queries adds in one order for every group of heads", "[ops]") {
  ThreadPool pool(2);
  for (const bool int8 : {false, true}) {
    for (std::int64_t group = 1; group <= 9; ++group) {
      for (const std::int64_t width : {16, 24, 80, 128}) {
        for (const std::int64_t keys : {1, 7, 16, 19, 70}) {
          SingleQueries{
              .heads = 2 * group, .kv_heads = 2, .width = width, .keys = keys, .int8 = int8}
              .check(pool);
        }
      }
    }
  }
}

TEST_CASE("attention of a long single query adds in that order on any number of threads", "[ops]") {
  ThreadPool alone(1);
  ThreadPool many(5);
  for (const bool int8 : {false, true}) {
    for (const std::int64_t heads : {3, 6}) {
      const SingleQueries queries{
          .heads = heads, .kv_heads = 3, .width = 136, .keys = 2500, .int8 = int8};
      queries.check(alone);
      queries.check(many);
    }
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

}  // namespace
}  // namespace strata::test
