// Warns of products in e4m3 of which rounding loses much.

#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "strata/model/fp8_counts.h"

namespace strata {

/// Looks at what steps have counted, and tells of each operand once.
class Fp8Watch {
 public:
  /// Of normal numbers this share becomes zero where the largest one is so far above the others
  /// that these are rounded to steps of an eighth of their standard deviation: that errs by 3.6 %
  /// of it, more than the 2.6 % by which e4m3 errs anyway.
  static constexpr double kMostFlushed = 0.05;

  /// Returns a warning that names the worst of the operands that flush more than that for the first
  /// time; empty if none does. Columns, which sum over tokens, are left out: there numbers that are
  /// small beside another token's count little.
  [[nodiscard]] std::string look(const Fp8StepCounts& counted);

 private:
  std::set<std::array<std::int64_t, 3>> told_;  ///< layer, linear, operand
};

}  // namespace strata
