// Tests rounding to e4m3 and back against the definition of the format: every code, and the nearest
// code of every bf16 number and of numbers around each tie, found by comparing distances in f64.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/element.h"
#include "strata/base/round.h"
#include "support/catch.h"

using namespace strata;

namespace {

constexpr std::uint8_t kSign = 0x80;
constexpr int kLargestCode = 0x7e;

E4M3 from_code(int code) {
  E4M3 x;
  x.bits = static_cast<std::uint8_t>(code);
  return x;
}

/// Value of a code that is not NaN, by definition: sign, 4 exponent bits, 3 fraction bits.
double e4m3_value(int code) {
  const int exponent = (code >> 3) & 0xf;
  const int fraction = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -6 - 3) : std::ldexp(8 + fraction, exponent - 7 - 3);
  return (code & kSign) != 0 ? -magnitude : magnitude;
}

/// Nearest code by comparing the distances of all, ties to the even one; beyond the largest number
/// that one.
int nearest_code(double x) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (int code = 0; code <= kLargestCode; ++code) all.push_back(e4m3_value(code));
    return all;
  }();
  const double magnitude = std::abs(x);
  int best = 0;
  double least = magnitude;
  for (int code = 1; code <= kLargestCode; ++code) {
    const double distance = std::abs(magnitude - values[static_cast<std::size_t>(code)]);
    if (distance > least || (distance == least && code % 2 != 0)) continue;
    best = code;
    least = distance;
  }
  return std::signbit(x) ? best | kSign : best;
}

}  // namespace

TEST_CASE("every e4m3 code but NaN survives the way through f32") {
  for (int code = 0; code < 0x100; ++code) {
    CAPTURE(code);
    const float wide = from_code(code);
    if ((code & 0x7f) == E4M3::kNan) {
      REQUIRE(std::isnan(wide));
      REQUIRE(E4M3(wide).bits == E4M3::kNan);
      continue;
    }
    REQUIRE(static_cast<double>(wide) == e4m3_value(code));
    REQUIRE(std::signbit(wide) == ((code & kSign) != 0));
    REQUIRE(E4M3(wide).bits == code);
  }
  CHECK(static_cast<double>(E4M3::kLargest) == e4m3_value(kLargestCode));
}

TEST_CASE("every bf16 number rounds to the nearest e4m3, ties to even") {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    Bf16 x;
    x.bits = static_cast<std::uint16_t>(pattern);
    const float wide = x;
    CAPTURE(pattern, wide);
    if (std::isnan(wide)) {
      REQUIRE(E4M3(wide).bits == E4M3::kNan);
    } else if (std::isinf(wide)) {
      REQUIRE(E4M3(wide).bits == (wide < 0 ? kSign | kLargestCode : kLargestCode));
    } else {
      REQUIRE(E4M3(wide).bits == nearest_code(static_cast<double>(wide)));
    }
  }
}

TEST_CASE("f32 and f64 next to a tie between two e4m3 round to the nearer one") {
  for (int code = 0; code < kLargestCode; ++code) {
    const double tie = (e4m3_value(code) + e4m3_value(code + 1)) / 2;
    for (const double sign : {1.0, -1.0}) {
      for (const double toward : {-1000.0, 1000.0}) {
        CAPTURE(code, sign, toward);
        const double x = std::nextafter(sign * tie, toward);
        const auto narrow =
            std::nextafter(static_cast<float>(sign * tie), static_cast<float>(toward));
        REQUIRE(rounded_to_e4m3(x).bits == nearest_code(x));
        REQUIRE(E4M3(narrow).bits == nearest_code(static_cast<double>(narrow)));
      }
      REQUIRE(rounded_to_e4m3(sign * tie).bits == nearest_code(sign * tie));
    }
  }
  CHECK(rounded_to_e4m3(1e300).bits == kLargestCode);
  CHECK(rounded_to_e4m3(std::numeric_limits<double>::quiet_NaN()).bits == E4M3::kNan);
}

TEST_CASE("e4m3 is an element type of a byte") {
  CHECK(size_of(DType::kE4M3) == 1);
  CHECK(name_of(DType::kE4M3) == "e4m3");
  CHECK(kDTypeOf<E4M3> == DType::kE4M3);
  std::byte stored{};
  store_element(&stored, DType::kE4M3, -0.4375);
  CHECK(load_element(&stored, DType::kE4M3) == -0.4375);
}
