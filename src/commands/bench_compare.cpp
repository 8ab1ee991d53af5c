// Compares files that `bench --suite` and `bench --json` wrote. Nothing is measured, so it needs no
// GPU.

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/benchmark/comparison.h"
#include "strata/benchmark/results.h"
#include "strata/benchmark/tables.h"
#include "strata/commands/commands.h"

namespace strata {

namespace {

/// Returns the file and what measured it: "a.json (strata 0.1.0 (0123456789ab), 2026-11-25...)".
std::string called(const std::filesystem::path& file, const SuiteResults& results) {
  const Provenance& p = results.provenance;
  return file.string() + " (strata " + p.version + ", commit " + p.commit +
         (p.date.empty() ? "" : ", " + p.date) + ")";
}

/// Returns the rows that are too slow, or have been lost.
std::string too_slow(const Comparison& comparison, double least) {
  std::string text;
  for (const ComparedRow& row : comparison.rows) {
    if (!row.below(least)) continue;
    text += (text.empty() ? "" : ", ") +
            fmt::format("{} ({:.3f})", printable_name(row.name), row.ratio);
  }
  for (const std::string& name : comparison.lost) {
    text += (text.empty() ? "" : ", ") + printable_name(name) + " (failed)";
  }
  return text;
}

}  // namespace

int bench_compare(const CompareOptions& options) {
  const SuiteResults before = read_results(options.files.front());
  std::string slow;
  for (std::size_t i = 1; i < options.files.size(); ++i) {
    const SuiteResults after = read_results(options.files[i]);
    const Comparison comparison = compare(before, after);
    if (comparison.rows.empty() && comparison.lost.empty()) {
      throw ConfigError("--compare: " + options.files[0].string() + " and " +
                        options.files[i].string() +
                        " have no row of one name with figures; compare results of one suite");
    }
    const std::string text =
        (i > 1 ? "\n" : "") + to_markdown(comparison, {.before = called(options.files[0], before),
                                                       .after = called(options.files[i], after)});
    std::fputs(text.c_str(), stdout);
    if (!options.fail_below) continue;
    const std::string rows = too_slow(comparison, *options.fail_below);
    if (!rows.empty())
      slow += (slow.empty() ? "" : "; ") + printable_name(options.files[i].string()) + ": " + rows;
  }
  std::fflush(stdout);
  if (slow.empty()) return 0;
  log::error("slower than {:.4g} times before, by more than the noise: {}", *options.fail_below,
             slow);
  return 1;
}

}  // namespace strata
