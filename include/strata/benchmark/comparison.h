// Two results of a suite beside each other: how much faster each row became, and whether that is
// more than what runs of one row differ by anyway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/benchmark/results.h"

namespace strata {

/// A value that both have, and that is not the same.
struct Difference {
  std::string key;
  std::string before;
  std::string after;
};

/// What a ratio of speeds means.
enum class Change : std::uint8_t { kSame, kFaster, kSlower, kUnknown };

/// A row that both have figures of.
struct ComparedRow {
  std::string name;
  double before = 0;  ///< median of its tokens/s
  double after = 0;
  double ratio = 0;  ///< after / before
  /// ratio * sqrt(spread_before^2 + spread_after^2); where one of them has a single run it is taken
  /// to spread like the other. Absent if both have one: nobody knows then.
  std::optional<double> noise;
  std::vector<Difference> differences;  ///< of configs, placements and devices

  [[nodiscard]] Change change() const;
  /// Returns whether the row is slower than `least` times before, by more than the noise, which
  /// counts as 0 where nobody knows it.
  [[nodiscard]] bool below(double least) const { return ratio + noise.value_or(0) < least; }
};

struct Comparison {
  std::vector<Difference> provenance;
  std::vector<ComparedRow> rows;
  std::vector<std::string> only_before;
  std::vector<std::string> only_after;
  std::vector<std::string> lost;        ///< have figures before, and failed after
  std::vector<std::string> unmeasured;  ///< have no figures before
};

[[nodiscard]] Comparison compare(const SuiteResults& before, const SuiteResults& after);

}  // namespace strata
