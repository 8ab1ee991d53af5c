// Tests moments in 8 bits: that codes are right on average and drawn apart, that they depend
// neither on the instruction set nor on how a run of parameters is cut, and conversions of whole
// runs.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/operators.h"
#include "strata/base/random.h"
#include "strata/ops/moment_codes.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/typed_values.h"

namespace strata::test {
namespace {

/// So many standard deviations are exceeded with a probability of 1e-4.
constexpr double kMostDeviations = 3.89;

/// A run of parameters with split masters, and its gradient.
struct Run {
  std::vector<Bf16> high;
  std::vector<std::int16_t> low;
  std::vector<std::uint8_t> m, v, scale;
  std::vector<float> grad;
  std::vector<Bf16> short_grad;  ///< counts instead of the other one if it is there
  bool split = true;             ///< else the high halves are all there is of masters
  std::int32_t nonfinite = 0;

  explicit Run(std::size_t n) : high(n), low(n), m(n), v(n), scale((n + 63) / 64 * 2), grad(n) {}
};

/// Updates parameters [begin, end) of a run.
void update(const cpu::SimdKernels& simd, Run& run, const AdamWScalars& scalars, std::size_t begin,
            std::size_t end, double weight_decay = 0.1) {
  ThreadPool pool(2);
  const auto n = static_cast<std::int64_t>(end - begin);
  const ConstTensorView grad = run.short_grad.empty()
                                   ? ConstTensorView(&run.grad[begin], DType::kF32, {n})
                                   : ConstTensorView(&run.short_grad[begin], DType::kBF16, {n});
  const TensorView low = TensorView(&run.low[begin], DType::kI16, {n});
  cpu::execute({pool, simd}, AdamW{.weight = TensorView(&run.high[begin], DType::kBF16, {n}),
                                   .low = run.split ? low : TensorView{},
                                   .m = TensorView(&run.m[begin], kMomentCode, {n}),
                                   .v = TensorView(&run.v[begin], kMomentCode, {n}),
                                   .scale = TensorView(&run.scale[begin / 64 * 2], kMomentCode,
                                                       {(n + 63) / 64, 2}),
                                   .grad = grad,
                                   .scalars = &scalars,
                                   .weight_decay = weight_decay,
                                   .rounding_stream = 9,
                                   .rounding_begin = static_cast<std::int64_t>(begin),
                                   .nonfinite = TensorView(&run.nonfinite, DType::kI32, {1})});
}

void update(const cpu::SimdKernels& simd, Run& run, const AdamWScalars& scalars) {
  update(simd, run, scalars, 0, run.grad.size());
}

/// A number that a parameter's m takes, its square that v takes, and what is drawn of them.
class Draws {
 public:
  /// `unit` is the number of code 1.
  Draws(double x, double unit) : x_(x) {
    const double size = std::abs(x) / unit;
    step_ = unit * std::exp2(std::max(0, std::ilogb(std::max(size, 1.0)) - 4));
    lower_ = std::floor(x / step_) * step_;
  }
  void add(double value) {
    const double up = (value - lower_) / step_;
    others_ += up == 0 || up == 1 ? 0 : 1;
    ups_.push_back(up);
  }
  [[nodiscard]] std::size_t others() const { return others_; }
  [[nodiscard]] double chance() const { return (x_ - lower_) / step_; }
  [[nodiscard]] double count() const { return static_cast<double>(ups_.size()); }
  /// Returns how many standard deviations the mean is from x.
  [[nodiscard]] double mean_deviations() const {
    double sum = 0;
    for (const double up : ups_) sum += up - chance();
    return std::abs(sum) / std::sqrt(count() * chance() * (1 - chance()));
  }
  /// Returns how many standard deviations the mean square error is from that of a fair draw.
  [[nodiscard]] double square_deviations() const {
    const double p = chance();
    double sum = 0;
    for (const double up : ups_) sum += (up - p) * (up - p) - p * (1 - p);
    return std::abs(sum) / std::sqrt(count() * p * (1 - p) * (1 - 2 * p) * (1 - 2 * p));
  }
  /// Returns how many standard deviations the correlation with others is from 0.
  [[nodiscard]] double correlation_deviations(const Draws& other, std::size_t shift) const {
    double sum = 0;
    for (std::size_t i = shift; i < ups_.size(); ++i) {
      sum += (ups_[i] - chance()) * (other.ups_[i - shift] - other.chance());
    }
    const double variance = chance() * (1 - chance()) * other.chance() * (1 - other.chance());
    return std::abs(sum) / std::sqrt(count() * variance);
  }

 private:
  double x_, step_, lower_;
  std::vector<double> ups_;
  std::size_t others_ = 0;
};

/// Any 32 bits: with all exponents, denormals, infinities and NaNs among them.
float any_float(std::uint64_t stream, std::size_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(7, stream, i) >> 32));
}

/// Returns a run of any bytes, with gradients that are any bits in some blocks.
Run any_run(std::size_t n) {
  Run run(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = random_bits(5, 1, i);
    run.high[i] = Bf16(static_cast<float>(random_normal(5, 2, i)));
    run.low[i] = static_cast<std::int16_t>(bits);
    run.m[i] = static_cast<std::uint8_t>(bits >> 16);
    run.v[i] = static_cast<std::uint8_t>(bits >> 24);
    run.grad[i] =
        i / 64 % 5 == 0 ? any_float(3, i) : static_cast<float>(random_normal(5, 4, i) * 1e-3);
  }
  for (std::size_t i = 0; i < run.scale.size(); ++i) {
    run.scale[i] = static_cast<std::uint8_t>(80 + random_bits(5, 6, i) % 40);
  }
  return run;
}

/// Returns a run of blocks that differ in what is rare: their scales are those at the ends of what
/// is written or of what is usual, or none, or larger than any that is written; codes and gradients
/// are zeros, zeros of either sign, tiny, or huge, in all of the block or in single parameters.
Run rare_run(std::size_t n) {
  Run run = any_run(n);
  constexpr std::uint8_t kScales[] = {0, 1, 28, 29, 52, 53, 100, 236, 237, 244, 245, 255};
  constexpr float kGradients[] = {0.0f,   -0.0f,    1e-45f,  1e-38f,    -1e-30f,
                                  1e-20f, 0x1p-45f, 1e-13f,  -0x1p-43f, 1e-6f,
                                  -1.0f,  1e10f,    0x1p60f, 1e30f,     0x1.fp+126f};
  for (std::size_t block = 0; block < run.scale.size() / 2; ++block) {
    const auto pick = [&](std::uint64_t stream, std::size_t count, std::size_t i = 0) {
      return static_cast<std::size_t>(random_bits(9, stream, 64 * block + i) % count);
    };
    run.scale[2 * block] = kScales[pick(1, std::size(kScales))];
    run.scale[2 * block + 1] = kScales[pick(2, std::size(kScales))];
    const bool ordinary = pick(3, 2) == 0;
    if (ordinary) run.scale[2 * block] = run.scale[2 * block + 1] = 100;
    for (std::size_t i = 0; i < 64 && 64 * block + i < n; ++i) {
      const std::size_t at = 64 * block + i;
      if (pick(4, 4) == 0) run.m[at] &= 0x80;
      if (pick(5, 4) == 0 || pick(6, 9, i) == 0) run.v[at] = 0;
      const float each = kGradients[pick(7, std::size(kGradients))];
      const float single = kGradients[pick(8, std::size(kGradients), i)];
      run.grad[at] = ordinary ? static_cast<float>(random_normal(9, 10, at) * 1e-3) : each;
      if (pick(11, 3) == 0 && pick(12, 30, i) == 0) run.grad[at] = single;
    }
    if (run.scale[2 * block] == 0 && pick(13, 2) == 0) {
      for (std::size_t i = 64 * block; i < std::min(64 * block + 64, n); ++i) {
        run.m[i] = run.v[i] = 0;
      }
      run.scale[2 * block + 1] = 0;
    }
  }
  return run;
}

/// Returns the number of elements in which runs differ.
std::size_t differences(const Run& a, const Run& b) {
  std::size_t count = a.nonfinite == b.nonfinite ? 0 : 1;
  for (std::size_t i = 0; i < a.grad.size(); ++i) {
    const bool nan =
        std::isnan(static_cast<float>(a.high[i])) && std::isnan(static_cast<float>(b.high[i]));
    const bool same_weight = a.high[i].bits == b.high[i].bits && a.low[i] == b.low[i];
    count += (same_weight || nan) && a.m[i] == b.m[i] && a.v[i] == b.v[i] ? 0 : 1;
  }
  for (std::size_t i = 0; i < a.scale.size(); ++i) count += a.scale[i] == b.scale[i] ? 0 : 1;
  return count;
}

std::vector<double> decoded(Moment moment, const std::vector<std::uint8_t>& codes,
                            const std::vector<std::uint8_t>& scales) {
  std::vector<double> values(codes.size());
  decode_moments(moment, codes, scales, values);
  return values;
}

}  // namespace

TEST_CASE("moments in 8 bits are right on average, and m and v of all parameters drawn apart",
          "[ops]") {
  // The largest of each block, 1, makes code 1 of m 2^-10 and that of v 2^-18.
  constexpr double kUnits[] = {0x1p-10, 0x1p-18};
  constexpr std::array kGradients{0.3f * 0x1p-10f, -5.7f * 0x1p-10f, 0.1234f, -0.56789f};
  constexpr std::size_t kCount = std::size_t{1} << (kSanitized ? 16 : 22);
  Run run(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    run.grad[i] = i % 64 == 0 ? 1.0f : kGradients[i % kGradients.size()];
  }
  update(cpu::kPortable, run, {.lr = 0, .beta1 = 0, .beta2 = 0, .rounding_seed = 3});
  REQUIRE(run.nonfinite == 0);
  const std::array values{decoded(Moment::kFirst, run.m, run.scale),
                          decoded(Moment::kSecond, run.v, run.scale)};
  for (std::size_t kind = 0; kind < kGradients.size(); ++kind) {
    const float g = kGradients[kind];
    INFO("gradient " << g);
    std::array draws{Draws(static_cast<double>(g), kUnits[0]),
                     Draws(static_cast<double>(g * g), kUnits[1])};
    for (std::size_t i = kind; i < kCount; i += kGradients.size()) {
      if (i % 64 == 0) continue;
      draws[0].add(values[0][i]);
      draws[1].add(values[1][i]);
    }
    CHECK(draws[0].count() > 0.2 * kCount);
    for (const Draws& moment : draws) {
      if (moment.chance() * kUnits[1] == static_cast<double>(g * g)) continue;  // v below code 1
      CHECK(moment.others() == 0);
      CHECK(moment.mean_deviations() < kMostDeviations);
      CHECK(moment.square_deviations() < kMostDeviations);
      CHECK(moment.correlation_deviations(moment, 1) < kMostDeviations);
      CHECK(moment.correlation_deviations(moment, 64) < kMostDeviations);
    }
    if (kind > 0) CHECK(draws[0].correlation_deviations(draws[1], 0) < kMostDeviations);
  }
  // The square of the first is a 45th of code 1.
  std::size_t others = 0;
  for (std::size_t i = kGradients.size(); i < kCount; i += kGradients.size()) {
    others += values[1][i] == (i % 64 == 0 ? 1 : kUnits[1]) ? 0 : 1;
  }
  CHECK(others == 0);
}

TEST_CASE("only what no gradient has reached has a v of zero in 8 bits", "[ops]") {
  Run run(256);
  run.grad = {1.0f, 1e-18f, -1e-5f, 0.0f, -0.0f};
  run.grad.resize(256);
  run.grad[64] = 1e-18f;
  for (int t = 1; t < 50; ++t) {
    update(cpu::kPortable, run, {.lr = 0, .rounding_seed = static_cast<std::uint64_t>(t)});
    for (std::size_t i = 0; i < run.v.size(); ++i) {
      REQUIRE((run.v[i] != 0) == (run.grad[i] != 0));
    }
    run.grad[0] = 1e4f;  // what the others have is far below its code 1
  }
  CHECK(run.scale[4] == 0);
  CHECK(run.scale[5] == 0);
}

TEST_CASE("adamw with codes has the same bits on every instruction set for any input bits",
          "[ops]") {
  constexpr std::size_t kCount = 50021;
  const AdamWScalars scalars{
      .lr = 1e-3, .correction1 = 0.1, .correction2 = 0.05, .rounding_seed = 8};
  const Run start = any_run(kCount);
  Run portable = start;
  update(cpu::kPortable, portable, scalars);
  CHECK(portable.nonfinite == 1);
  CHECK(differences(portable, start) > kCount / 2);
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    INFO(simd->name);
    Run got = start;
    update(*simd, got, scalars);
    REQUIRE(differences(got, portable) == 0);
  }
}

TEST_CASE("rare blocks of codes have the same bits on every instruction set", "[ops]") {
  constexpr std::size_t kCount = 60021;
  for (const bool split : {true, false}) {
    for (const bool short_grad : {true, false}) {
      Run start = rare_run(kCount);
      start.split = split;
      if (short_grad) {
        for (const float g : start.grad) start.short_grad.emplace_back(g);
      }
      for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
        INFO(simd->name << (split ? ", split" : "") << (short_grad ? ", bf16 gradients" : ""));
        Run portable = start;
        Run got = start;
        // Later updates have the blocks that earlier ones wrote.
        for (int t = 1; t <= 3; ++t) {
          AdamWScalars scalars{.lr = 1e-3, .rounding_seed = static_cast<std::uint64_t>(t)};
          scalars.beta2 = t == 3 ? 0.9999 : 0.95;
          scalars.correction1 = 1 - std::pow(scalars.beta1, t);
          scalars.correction2 = 1 - std::pow(scalars.beta2, t);
          scalars.grad_factor = t == 2 ? 0.37 : 1;
          update(cpu::kPortable, portable, scalars);
          update(*simd, got, scalars);
          REQUIRE(differences(got, portable) == 0);
        }
      }
    }
  }
}

TEST_CASE("divisions by corrections have the same bits on every instruction set", "[ops]") {
  // What would show a quotient that is rounded wrongly: one next to the middle between two numbers.
  // X / D is if 2^25 X is an odd multiple of D and a small remainder r. D is odd here.
  constexpr std::int64_t kFirst = 1 << 23;
  for (std::uint64_t pick = 0; pick < 200; ++pick) {
    const auto d = static_cast<std::int64_t>(random_bits(3, 1, pick) % kFirst | 1) + kFirst;
    Run start(128);
    for (std::int64_t i = 0; i < 64; ++i) {
      std::int64_t x = (i - 32 + d) % d;  // r, halved 25 times modulo D
      for (int halving = 0; halving < 25; ++halving) x = (x % 2 == 0 ? x : x + d) / 2;
      if (x < kFirst) x = d - x;
      // The first update has m = g / 2; in the second block v decides, of which g is the root.
      const auto mantissa = static_cast<float>(x) * 0x1p-24f;
      start.grad[static_cast<std::size_t>(i)] = mantissa;
      start.grad[static_cast<std::size_t>(64 + i)] = std::sqrt(mantissa);
    }
    AdamWScalars scalars{.lr = 1, .beta1 = 0.5, .beta2 = 0.5, .eps = 1e-8, .rounding_seed = 1};
    scalars.correction1 = scalars.correction2 = static_cast<double>(d) * 0x1p-24;
    Run portable = start;
    update(cpu::kPortable, portable, scalars, 0, 128, 0);
    for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
      INFO(simd->name << ", correction " << scalars.correction1);
      Run got = start;
      update(*simd, got, scalars, 0, 128, 0);
      REQUIRE(differences(got, portable) == 0);
    }
  }
}

TEST_CASE("codes of a run that is updated in parts are those of the whole", "[ops]") {
  constexpr std::size_t kCount = 9000;
  const AdamWScalars scalars{.lr = 1e-3, .rounding_seed = 8};
  Run whole = any_run(kCount);
  Run parts = whole;
  update(cpu::kPortable, whole, scalars);
  for (const auto& [begin, end] :
       {std::pair{0, 64}, std::pair{64, 4160}, std::pair{4160, 8000}, std::pair{8000, 9000}}) {
    update(cpu::kPortable, parts, scalars, static_cast<std::size_t>(begin),
           static_cast<std::size_t>(end));
  }
  CHECK(differences(parts, whole) == 0);
  Run other = any_run(kCount);
  update(cpu::kPortable, other, {.lr = 1e-3, .rounding_seed = 9});
  CHECK(differences(other, whole) > kCount / 4);
}

TEST_CASE("a moment that is not finite is reported, and its block becomes zeros", "[ops]") {
  Run run(128);
  std::fill(run.grad.begin(), run.grad.end(), 1.0f);
  run.grad[70] = 1e30f;  // its square is not finite, its weight is
  update(cpu::kPortable, run, {.lr = 1e-3, .rounding_seed = 8});
  CHECK(run.nonfinite == 1);
  for (std::size_t i = 64; i < 128; ++i) REQUIRE(run.v[i] == 0);
  CHECK(run.v[0] != 0);
  CHECK(run.m[64] == 0);  // far below the largest
}

TEST_CASE("converted moments are off by half a step at most, and codes come back as they were",
          "[ops]") {
  for (const Moment moment : {Moment::kFirst, Moment::kSecond}) {
    const double unit = moment == Moment::kFirst ? 0x1p-10 : 0x1p-18;
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const double x = std::exp2(-20 * random_uniform(1, 2, i)) * (i % 3 == 0 ? -1 : 1);
      values.push_back(i % 64 == 0 ? 1.0 : i % 7 == 0 ? 0.0 : x);
      if (moment == Moment::kSecond) values.back() = std::abs(values.back());
    }
    std::vector<std::uint8_t> codes(values.size());
    std::vector<std::uint8_t> scales(16);
    REQUIRE(encode_moments(moment, values, codes, scales));
    const std::vector<double> found = decoded(moment, codes, scales);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double size = std::abs(values[i]);
      const double step = std::max(unit, std::exp2(std::floor(std::log2(size)) - 4));
      const bool raised = moment == Moment::kSecond && size > 0 && size < unit / 2;
      REQUIRE(std::abs(found[i] - values[i]) <= (raised ? unit : step / 2));
      if (moment == Moment::kSecond) REQUIRE((found[i] == 0) == (size == 0));
    }
    std::vector<std::uint8_t> again(values.size());
    REQUIRE(encode_moments(moment, found, again, scales));
    CHECK(again == codes);
  }
  std::vector<std::uint8_t> codes(1);
  std::vector<std::uint8_t> scales(2);
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    CHECK_FALSE(encode_moments(Moment::kSecond, std::vector{bad}, codes, scales));
  }
}

}  // namespace strata::test
