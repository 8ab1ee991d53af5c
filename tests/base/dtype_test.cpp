// Tests rounding to bf16 against the definition of the format, for every pattern and around ties,
// and the facts about element types.

#include "strata/base/dtype.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "strata/base/random.h"
#include "support/catch.h"

using namespace strata;

namespace {

/// Value of a finite bf16 pattern by definition: sign, 8 exponent bits, 7 fraction bits.
double bf16_value(std::uint16_t bits) {
  const int exponent = (bits >> 7) & 0xff;
  const int fraction = bits & 0x7f;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -126 - 7)
                                         : std::ldexp(128 + fraction, exponent - 127 - 7);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Nearest pattern by comparing distances, ties to the even one.
std::uint16_t nearest_bf16(float x) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double to_below = std::abs(static_cast<double>(x) - bf16_value(below));
  const double to_above = std::abs(static_cast<double>(x) - bf16_value(above));
  if (to_below == to_above) return below % 2 == 0 ? below : above;
  return to_below < to_above ? below : above;
}

}  // namespace

TEST_CASE("every bf16 pattern but NaN survives the way through f32") {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    Bf16 x;
    x.bits = static_cast<std::uint16_t>(pattern);
    const float wide = x;
    if (std::isnan(wide)) {
      REQUIRE(std::isnan(static_cast<float>(Bf16(wide))));
      continue;
    }
    REQUIRE(Bf16(wide).bits == x.bits);
    if (!std::isinf(wide)) REQUIRE(static_cast<double>(wide) == bf16_value(x.bits));
  }
}

TEST_CASE("f32 rounds to the nearest bf16, ties to even") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    // The sign and exponent of the pattern are random too, so subnormal numbers are among them.
    const auto pattern = static_cast<std::uint32_t>(random_bits(7, 0, i));
    const auto x = std::bit_cast<float>(i % 4 == 0 ? (pattern & 0xffff0000u) | 0x8000u : pattern);
    if ((pattern & 0x7f800000u) >= 0x7f000000u) continue;  // the largest exponents overflow
    CAPTURE(i, x);
    REQUIRE(Bf16(x).bits == nearest_bf16(x));
  }
}

TEST_CASE("f32 beyond the largest bf16 becomes infinity and NaN stays NaN") {
  CHECK(std::isinf(static_cast<float>(Bf16(std::numeric_limits<float>::max()))));
  CHECK(static_cast<float>(Bf16(-std::numeric_limits<float>::infinity())) ==
        -std::numeric_limits<float>::infinity());
  // All payload bits in the half that is cut off: plain truncation would make this an infinity.
  CHECK(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0xffffffffu)))));
}

TEST_CASE("element types know their size, name and accumulator") {
  CHECK(size_of(DType::kF64) == sizeof(double));
  CHECK(size_of(DType::kBF16) == 2);
  CHECK(size_of(DType::kU8) == 1);
  CHECK(size_of(DType::kI8) == 1);
  CHECK(size_of(DType::kI32) == 4);
  CHECK(name_of(DType::kBF16) == "bf16");
  CHECK(name_of(DType::kU16) == "u16");
  CHECK(name_of(DType::kI8) == "i8");
  CHECK(kDTypeOf<Bf16> == DType::kBF16);
  CHECK(kDTypeOf<std::int16_t> == DType::kI16);
  CHECK(kDTypeOf<std::int8_t> == DType::kI8);
  CHECK(accumulator_of(DType::kBF16) == DType::kF32);
  CHECK(accumulator_of(DType::kF64) == DType::kF64);
}
