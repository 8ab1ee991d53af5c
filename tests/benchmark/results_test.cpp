// Tests that a results file gives back what was written, is refused by name and key where it is
// damaged, and becomes a table.

#include "strata/benchmark/results.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "benchmark/bench_json.h"
#include "strata/base/error.h"
#include "strata/benchmark/tables.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {

namespace {

namespace fs = std::filesystem;

/// A file that holds a text while it lives.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(fs::temp_directory_path() / ("strata_results_" + std::to_string(::getpid()))) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { fs::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

SuiteResults sample() {
  RowRecord failed = row_of("large", {});
  failed.runs = {failed_run(3, "the run needs | 500 GiB\nChange keys")};
  SuiteResults results = results_of({row_of("a", {98, 102, 100}), failed, row_of("late", {})});
  results.provenance.gpus = {{"A GPU, 80 GiB", "A GPU, 80 GiB"}};
  results.provenance.cores = 16;
  results.provenance.host_memory_bytes = std::int64_t{125} << 30;
  return results;
}

}  // namespace

TEST_CASE("results are read back as they were written") {
  const SuiteResults written = sample();
  const TextFile file(to_json(written));
  const SuiteResults read = read_results(file.path());
  CHECK(to_json(read) == to_json(written));
  CHECK(read.rows[0].figures()->middle.tokens_per_s == 100);
  CHECK(read.rows[1].failure()->exit_code == 3);
  CHECK(differing_provenance(read.provenance, written.provenance).empty());
  const nlohmann::json json = parse_json<nlohmann::json>(to_json(written));
  CHECK(json["rows"][0]["tokens_per_s"] == 100);
  CHECK(json["rows"][0]["spread"] == Approx(0.04));
  CHECK(json["rows"][0]["runs"][1]["result"]["tokens_per_s"] == 102);
  CHECK(json["rows"][0]["config"]["run.steps"] == 8);
  CHECK(json["rows"][1]["tokens_per_s"].is_null());
  CHECK(json["provenance"]["driver"].is_null());
}

TEST_CASE("the file of a single bench is one run of a row named bench") {
  const TextFile file(json_text(steps_json(500)));
  const SuiteResults read = read_results(file.path());
  REQUIRE(read.rows.size() == 1);
  CHECK(read.rows[0].name == "bench");
  CHECK(read.rows[0].figures()->middle.tokens_per_s == 500);
  CHECK(read.provenance.commit == "abc");
}

TEST_CASE("members that a later strata writes are left alone") {
  nlohmann::ordered_json json = parse_json<nlohmann::ordered_json>(to_json(sample()));
  json["new"] = 1;
  json["provenance"]["new"] = 1;
  json["rows"][0]["new"] = 1;
  json["rows"][0]["runs"][0]["new"] = 1;
  const TextFile file(json_text(json));
  CHECK(to_json(read_results(file.path())) == to_json(sample()));
}

TEST_CASE("damaged results are refused by file, row and key") {
  const auto refused = [](const auto& damage, const std::string& says) {
    nlohmann::json json = parse_json<nlohmann::json>(to_json(sample()));
    damage(json);
    const TextFile file(json_text(json));
    CAPTURE(says);
    CHECK_THROWS_WITH(read_results(file.path()),
                      ContainsSubstring(file.path().string()) && ContainsSubstring(says));
    CHECK_THROWS_AS(read_results(file.path()), ConfigError);
  };
  refused([](auto& j) { j["strata_suite"] = 2; }, "strata_suite is 2, and this strata reads 1");
  refused([](auto& j) { j.erase("rows"); }, "rows is missing");
  refused([](auto& j) { j["rows"] = 1; }, "rows is missing or damaged");
  refused([](auto& j) { j["rows"][0] = 1; }, "row 1: is 1");
  refused([](auto& j) { j["rows"][0]["name"] = 1; }, "row 1");
  refused([](auto& j) { j["rows"][0]["config"] = 1; }, "row 1 (a): config");
  refused([](auto& j) { j["rows"][0]["runs"][1] = 1; }, "row 1 (a): run 2");
  refused([](auto& j) { j["rows"][0]["runs"][1]["result"] = nullptr; }, "neither result nor error");
  refused([](auto& j) { j["rows"][0]["runs"][1]["result"] = 1; }, "run 2: result");
  refused([](auto& j) { j["provenance"]["cores"] = "many"; }, "provenance");
  const TextFile half("{\"strata_suite\": 1, ");
  CHECK_THROWS_WITH(read_results(half.path()), ContainsSubstring("is not JSON"));
  CHECK_THROWS_AS(read_results("/no/such/file"), IoError);
}

TEST_CASE("results become a table, with why rows have no figures, and the commands") {
  const std::string text = to_markdown(sample());
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("Suite `test` by strata 0.1.0 (abc), on A GPU; the machine "
                                     "has A GPU, 80 GiB; A GPU, 80 GiB"));
  CHECK_THAT(text, ContainsSubstring("125 GiB"));
  CHECK_THAT(text, ContainsSubstring("| a     |          100 | 3 of 3 |  4.0 % | 50.0 % | 10.0000 |"
                                     "                0.900 | 2.00 / 3.00 | 1.00 / 1.00 |\n"));
  CHECK_THAT(text, ContainsSubstring("| large | does not fit |"));
  CHECK_THAT(text, ContainsSubstring("| late  |      not yet |"));
  CHECK_THAT(text, ContainsSubstring("- `large`: the run needs \\| 500 GiB Change keys (exit code "
                                     "3)\n"));
  CHECK_THAT(text, ContainsSubstring("\nstrata bench a.json  # a\n"));
}

}  // namespace strata::test
