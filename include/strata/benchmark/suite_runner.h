// Measures the rows of a suite, one run after the other, and keeps the files of results up to date
// meanwhile. `bench --suite` calls it once with all rows.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/benchmark/results.h"
#include "strata/benchmark/suite.h"

namespace strata {

/// A row that is measured, and where its runs go.
struct SuiteJob {
  SuiteRow row;
  std::size_t record = 0;  ///< its place among the results
};

/// How rows are started, and the files that their results go to.
struct SuiteRuns {
  std::vector<std::string> launcher{};  ///< words that start the ranks of a row
  std::filesystem::path json{};         ///< the results; empty: not written
  std::filesystem::path markdown{};     ///< the table; empty: not written
};

/// Measures what the rows' records lack, in turns, and appends it to them. The files of `runs` are
/// written before the first run and after each. Blocks; throws Interrupted when a
/// signal came that StopSignals catches, and what the files throw, never what a run ends by.
void run_suite(const SuiteRuns& runs, const std::vector<SuiteJob>& jobs, SuiteResults& results);

}  // namespace strata
