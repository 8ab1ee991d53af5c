// Tests ratios and their noise against numbers that were worked out by hand.

#include "strata/benchmark/comparison.h"

#include <cmath>
#include <string>
#include <vector>

#include "benchmark/bench_json.h"
#include "strata/benchmark/tables.h"
#include "support/catch.h"

namespace strata::test {

namespace {

ComparedRow compare_runs(const std::vector<double>& before, const std::vector<double>& after) {
  return compare(results_of({row_of("a", before)}), results_of({row_of("a", after)})).rows.at(0);
}

}  // namespace

TEST_CASE("the noise of a ratio adds both spreads as squares") {
  // Medians 100 and 106, spreads 0.03 and 4.24 / 106 = 0.04: 1.06 * sqrt(0.0009 + 0.0016) = 0.053.
  const ComparedRow faster = compare_runs({100, 98.5, 101.5}, {106, 104, 108.24});
  CHECK(faster.before == 100);
  CHECK(faster.after == 106);
  CHECK(faster.ratio == Approx(1.06));
  CHECK(*faster.noise == Approx(0.053));
  CHECK(faster.change() == Change::kFaster);
  // The other way round: 100 / 106 = 0.943, its noise 0.943 * 0.05 = 0.0472, and 1 - 0.943 =
  // 0.0566.
  const ComparedRow slower = compare_runs({106, 104, 108.24}, {100, 98.5, 101.5});
  CHECK(*slower.noise == Approx(0.05 / 1.06));
  CHECK(slower.change() == Change::kSlower);
}

TEST_CASE("a difference within the noise is no change") {
  // Spreads 0.06 and 0.08: 1.05 * 0.1 = 0.105.
  const ComparedRow row = compare_runs({100, 97, 103}, {105, 100.8, 109.2});
  CHECK(*row.noise == Approx(0.105));
  CHECK(row.change() == Change::kSame);
}

TEST_CASE("a single run is taken to spread like the other file's, and two of them tell no noise") {
  const ComparedRow one = compare_runs({100, 97, 101}, {90});
  CHECK(*one.noise == Approx(0.9 * std::sqrt(2.0) * 0.04));
  CHECK(one.change() == Change::kSlower);
  const ComparedRow neither = compare_runs({100}, {90});
  CHECK_FALSE(neither.noise.has_value());
  CHECK(neither.change() == Change::kUnknown);
}

TEST_CASE("a row falls below a ratio only by more than the noise") {
  const ComparedRow row = compare_runs({100, 98.5, 101.5}, {94, 92.12, 95.88});  // 0.94 +- 0.047
  CHECK(row.below(1));
  CHECK(row.below(0.99));
  CHECK_FALSE(row.below(0.98));
  CHECK(compare_runs({100}, {90}).below(0.91));
  CHECK_FALSE(compare_runs({100}, {90}).below(0.9));
}

TEST_CASE("no name of a results' file makes a line, or has a terminal obey") {
  const std::string forged = "a\n| b | 1 |\x1b[31m\u202E";
  RowRecord row = row_of(forged, {1});
  row.command = forged;
  RowRecord failed = row_of(forged + "2", {});
  failed.runs = {failed_run(1, forged)};
  SuiteResults results = results_of({row, failed});
  results.suite = forged;
  results.provenance.command = forged;
  results.provenance.gpus = {{forged}};
  results.provenance.cpu = forged;
  const SuiteResults others = results_of({row_of(forged, {1}), row_of(forged + "3", {1})});
  for (const std::string& text :
       {to_markdown(results),
        to_markdown(compare(results, others), {.before = forged, .after = forged})}) {
    CHECK_THAT(text, !ContainsSubstring("\n| b | 1") && !ContainsSubstring("\x1b") &&
                         !ContainsSubstring("\u202E") && ContainsSubstring("\\u202e"));
  }
}

TEST_CASE("rows that only one of two files has figures of are named for what they are") {
  RowRecord failed = row_of("lost", {});
  failed.runs = {failed_run(1, "why")};
  const Comparison c =
      compare(results_of({row_of("both", {1}), row_of("lost", {1}), row_of("old", {1}),
                          row_of("late", {})}),
              results_of({row_of("new", {1}), failed, row_of("both", {1}), row_of("late", {1})}));
  REQUIRE(c.rows.size() == 1);
  CHECK(c.rows[0].name == "both");
  CHECK(c.lost == std::vector<std::string>{"lost"});
  CHECK(c.only_before == std::vector<std::string>{"old"});
  CHECK(c.only_after == std::vector<std::string>{"new"});
  CHECK(c.unmeasured == std::vector<std::string>{"late"});
}

TEST_CASE("what differs in machine, config and placement is listed, but for names of folders") {
  SuiteResults before = results_of({row_of("a", {1}), row_of("b", {1})});
  SuiteResults after = before;
  after.provenance.commit = "def";
  after.provenance.driver = "570.1";
  after.provenance.date = "later";
  after.provenance.command = "another";
  for (RowRecord& row : after.rows) row.config[0].value = "16";
  after.rows[1].config[1].value = "\"elsewhere\"";
  after.rows[1].config.push_back({"run.new", "true"});
  nlohmann::json other = steps_json(1);
  other["device"] = "Another GPU";
  after.rows[1].runs = {run_of(other)};
  const Comparison c = compare(before, after);
  REQUIRE(c.provenance.size() == 2);
  CHECK(c.provenance[0].key == "commit");
  CHECK(c.provenance[1].before == "null");
  CHECK(c.provenance[1].after == "\"570.1\"");
  CHECK(c.rows[0].differences.size() == 1);
  REQUIRE(c.rows[1].differences.size() == 3);
  CHECK(c.rows[1].differences[1].key == "run.new");
  CHECK(c.rows[1].differences[2].key == "device");
  const std::string text = to_markdown(c, {.before = "a.json", .after = "b.json"});
  CHECK_THAT(text, ContainsSubstring("- run.steps: 8 -> 16 (every row)\n"));
  CHECK_THAT(text, ContainsSubstring("- device: \"A GPU\" -> \"Another GPU\" (b)\n"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "| a   |            1.00 |           1.00 | 1.000 |     - | noise unknown |"));
}

}  // namespace strata::test
