// Rounds, draws and compares numbers for the operator cases. Rounding is by the
// addition of a large number, so that it shares no code with Bf16.

#include "support/op_reference.h"

#include <cmath>
#include <iomanip>
#include <map>
#include <span>
#include <utility>

#include "strata/base/random.h"
#include "support/catch.h"

namespace strata::test {

namespace {

constexpr std::uint64_t kSeed = 20;

int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 53;
    case DType::kF32: return 24;
    default: return 8;
  }
}

}  // namespace

double unit_roundoff(DType dtype) { return std::ldexp(1.0, -significand_bits(dtype)); }

double rounded_to(DType dtype, double value) {
  if (dtype == DType::kF64) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  // f64 has numbers of this size one unit in the last place of the dtype apart.
  const double large = std::ldexp(1.5, 52 + exponent - significand_bits(dtype));
  return std::copysign((value + large) - large, value);
}

std::vector<double> random_values(std::uint64_t stream, std::int64_t count, DType dtype) {
  // Most cases draw the same numbers: what was drawn is kept.
  static std::map<std::pair<std::uint64_t, DType>, std::vector<double>> all;
  std::vector<double>& drawn = all[{stream, dtype}];
  const std::size_t had = drawn.size();
  const auto size = static_cast<std::size_t>(count);
  if (size > had) {
    drawn.resize(size);
    const std::span<double> others = std::span(drawn).subspan(had);
    random_normals(kSeed, stream, had, others);
    for (double& value : others) value = rounded_to(dtype, value);
  }
  return {drawn.begin(), drawn.begin() + count};
}

std::vector<double> random_integers(std::uint64_t stream, std::int64_t count, std::int64_t limit) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::floor(random_uniform(kSeed, stream, i) * static_cast<double>(limit));
  }
  return values;
}

void require_close(const std::string& name, const std::vector<double>& got,
                   const Expected& expected, DType out, DType accumulator, DType intermediate) {
  INFO(name << " in " << name_of(out));
  REQUIRE(got.size() == expected.values.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = expected.values[i];
    double computed = unit_roundoff(accumulator) * expected.error[i];
    if (!expected.intermediate_error.empty()) {
      computed += unit_roundoff(intermediate) * expected.intermediate_error[i];
    }
    // What is rounded last is the computed value: as large as want plus its error.
    const double allowed = unit_roundoff(out) * (std::abs(want) + 2 * computed) + 2 * computed;
    const bool same = got[i] == want;  // infinities
    if (!same && !(std::abs(got[i] - want) <= allowed)) {
      FAIL(std::setprecision(17) << name << "[" << i << "] is " << got[i] << ", expected " << want
                                 << " within " << allowed);
    }
  }
}

void require_equal(const std::string& name, const std::vector<double>& got,
                   const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    if (got[i] != expected[i] || std::signbit(got[i]) != std::signbit(expected[i])) {
      FAIL(std::setprecision(17) << name << "[" << i << "] is " << got[i] << ", expected exactly "
                                 << expected[i]);
    }
  }
}

}  // namespace strata::test
