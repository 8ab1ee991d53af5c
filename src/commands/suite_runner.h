// Measures rows of a suite, one run after the other, and keeps the files of results as they should
// be meanwhile.

#pragma once

#include <cstddef>
#include <vector>

#include "strata/benchmark/results.h"
#include "strata/benchmark/suite.h"
#include "strata/commands/commands.h"

namespace strata {

/// A row that is measured, and where its runs go.
struct SuiteJob {
  SuiteRow row;
  std::size_t record = 0;  ///< its place among the results
};

/// Measures what the rows' records lack, in turns, and appends it to them. The files that the
/// options name are written before the first run and after each. Blocks; throws Interrupted when a
/// signal came that StopSignals catches, and what the files throw, never what a run ends by.
void run_suite(const SuiteOptions& options, const std::vector<SuiteJob>& jobs,
               SuiteResults& results);

}  // namespace strata
