// Results and comparisons as Markdown whose tables have even columns: readable on a terminal, and
// ready to be pasted into a page.
#pragma once

#include <string>

#include "strata/benchmark/comparison.h"
#include "strata/benchmark/results.h"

namespace strata {

/// Returns where the figures come from, a table with one line for each row, why rows have no
/// figures, and the commands.
[[nodiscard]] std::string to_markdown(const SuiteResults& results);

/// How the two files of a comparison are called.
struct ComparedNames {
  std::string before;
  std::string after;
};
/// Returns what differs around the figures, and a table with one line for each row of both.
[[nodiscard]] std::string to_markdown(const Comparison& comparison, const ComparedNames& names);

}  // namespace strata
