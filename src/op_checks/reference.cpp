// Rounds, draws and compares numbers for the checks of operators. Rounding is by the addition of a
// large number, so that it shares no code with Bf16.

#include "strata/op_checks/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/random.h"

namespace strata {

namespace {

constexpr std::uint64_t kSeed = 20;

int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 53;
    case DType::kF32: return 24;
    default: return 8;
  }
}

void require_size(const std::string& name, const std::vector<double>& got,
                  const std::vector<double>& expected) {
  if (got.size() == expected.size()) return;
  throw CheckFailure(
      fmt::format("{} has {} elements, expected {}", name, got.size(), expected.size()));
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
  // Most checks draw the same numbers: what was drawn is kept, by each thread for itself.
  static thread_local std::map<std::pair<std::uint64_t, DType>, std::vector<double>> all;
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

double require_close(const std::string& name, const std::vector<double>& got,
                     const Expected& expected, const Roundings& roundings) {
  require_size(name, got, expected.values);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = expected.values[i];
    double computed = unit_roundoff(roundings.accumulator) * expected.error[i];
    if (!expected.intermediate_error.empty()) {
      computed += unit_roundoff(roundings.intermediate) * expected.intermediate_error[i];
    }
    if (got[i] == want) continue;  // infinities, too
    // What is rounded last is the computed value: as large as want plus its error.
    const double allowed =
        unit_roundoff(roundings.out) * (std::abs(want) + 2 * computed) + 2 * computed;
    const double error = std::abs(got[i] - want);
    if (!(error <= allowed)) {
      throw CheckFailure(fmt::format("{}[{}] in {} is {:.17g}, expected {:.17g} within {:.3g}",
                                     name, i, name_of(roundings.out), got[i], want, allowed));
    }
    worst = std::max(worst, error / allowed);
  }
  return worst;
}

void require_equal(const std::string& name, const std::vector<double>& got,
                   const std::vector<double>& expected) {
  require_size(name, got, expected);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    if (got[i] != expected[i] || std::signbit(got[i]) != std::signbit(expected[i])) {
      throw CheckFailure(
          fmt::format("{}[{}] is {:.17g}, expected exactly {:.17g}", name, i, got[i], expected[i]));
    }
  }
}

}  // namespace strata
