// The JSON of benches as tests want it: as little of it as is read.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/json.h"
#include "strata/benchmark/results.h"

namespace strata::test {

/// Returns what a bench of steps writes.
inline nlohmann::json steps_json(double tokens_per_s) {
  return {{"version", "0.1.0"},
          {"commit", "abc"},
          {"device", "A GPU"},
          {"backend", "cuda"},
          {"ranks", 1},
          {"tokens_per_step", 1000},
          {"tokens_per_s", tokens_per_s},
          {"step_s_each", {0.1, 0.1}},
          {"step_s_median", 1000 / tokens_per_s},
          {"mfu", 0.5},
          {"prediction", {{"step_s", 900 / tokens_per_s}}},
          {"device_planned_bytes", std::size_t{3} << 30},
          {"device_measured_bytes", std::size_t{2} << 30},
          {"host_planned_bytes", std::size_t{1} << 30},
          {"host_peak_bytes", std::size_t{1} << 30},
          {"races", 0}};
}

inline RunRecord run_of(const nlohmann::json& json) {
  return {.date = "2026-11-25T10:00:00Z",
          .wall_s = 1,
          .exit_code = 0,
          .error = {},
          .json = json_text(json),
          .figures = read_bench(json_text(json), "run")};
}

/// Returns a row that reached so many tokens/s in each run.
inline RowRecord row_of(const std::string& name, const std::vector<double>& tokens_per_s) {
  RowRecord row{.name = name,
                .title = "of " + name,
                .command = "strata bench " + name + ".json",
                .repeats = 3,
                .config = {{"run.steps", "8"}, {"run.output", "\"runs/" + name + "\""}},
                .runs = {}};
  for (const double speed : tokens_per_s) row.runs.push_back(run_of(steps_json(speed)));
  return row;
}

inline RunRecord failed_run(int exit_code, const std::string& error) {
  return {
      .date = {}, .wall_s = 1, .exit_code = exit_code, .error = error, .json = {}, .figures = {}};
}

inline SuiteResults results_of(std::vector<RowRecord> rows) {
  SuiteResults results;
  results.suite = "test";
  results.title = "of a test";
  results.provenance.version = "0.1.0";
  results.provenance.commit = "abc";
  results.provenance.command = "strata bench --suite test.json";
  results.rows = std::move(rows);
  return results;
}

}  // namespace strata::test
