// Tests what is taken from the JSON of a bench, and medians and spreads by hand.

#include "strata/benchmark/figures.h"

#include <string>

#include "benchmark/bench_json.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {

TEST_CASE("the spread is the range over the median, and one run has none") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK_FALSE(spread({100}).has_value());
  CHECK(*spread({100, 102, 98}) == Approx(0.04));
  CHECK(*spread({110, 90}) == Approx(0.2));
}

TEST_CASE("a bench's JSON gives its figures, predicted over measured time among them") {
  const BenchFigures steps = read_bench(json_text(steps_json(500)), "a.json");
  CHECK(steps.tokens_per_s == 500);
  CHECK(*steps.mfu == 0.5);
  CHECK(*steps.step_s == 2);
  CHECK(*steps.predicted_of_measured == Approx(0.9));
  CHECK(steps.device_planned_bytes == std::size_t{3} << 30);
  CHECK(steps.device == "A GPU");
  const BenchFigures drawn = read_bench(
      R"({"generated_tokens": 9, "tokens_per_s": 3, "seconds": 4, "prediction": {"seconds": 5}})",
      "a.json");
  CHECK(*drawn.predicted_of_measured == 1.25);
  CHECK_FALSE(drawn.step_s.has_value());
  CHECK_FALSE(drawn.mfu.has_value());
}

TEST_CASE("what is unknown in a bench's JSON is absent, and unknown keys are left alone") {
  nlohmann::json json = steps_json(500);
  json["mfu"] = nullptr;
  json["prediction"] = {{"unknown", "nobody has measured this device"}};
  json["a later key"] = {1, 2};
  const BenchFigures figures = read_bench(json_text(json), "a.json");
  CHECK_FALSE(figures.mfu.has_value());
  CHECK_FALSE(figures.predicted_of_measured.has_value());
}

TEST_CASE("a file that holds no speed is refused by name") {
  nlohmann::json slow = steps_json(500);
  slow["tokens_per_s"] = nullptr;
  nlohmann::json fast = steps_json(500);
  fast["tokens_per_s"] = 1e300;
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("{}"),
                                  std::string(100, '['), json_text(slow), json_text(fast)}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(read_bench(text, "a.json"), ContainsSubstring("a.json: "));
    CHECK_THROWS_AS(read_bench(text, "a.json"), ConfigError);
  }
}

TEST_CASE("a row's figures are medians over its runs, and the most of measured memory") {
  RowRecord row = row_of("a", {98, 102});
  nlohmann::json more = steps_json(100);
  more["mfu"] = 0.7;
  more["device_measured_bytes"] = std::size_t{5} << 30;
  row.runs.insert(row.runs.begin(), run_of(more));
  row.runs.push_back(failed_run(1, "lost"));
  const RowFigures figures = *row.figures();
  CHECK(figures.tokens_per_s == std::vector<double>{100, 98, 102});
  CHECK(figures.middle.tokens_per_s == 100);
  CHECK(*figures.middle.mfu == 0.5);
  CHECK(*figures.middle.step_s == 10);
  CHECK(figures.middle.device_bytes == std::size_t{5} << 30);
  CHECK(*figures.spread == Approx(0.04));
  CHECK(row.failure()->error == "lost");
  CHECK_FALSE(row_of("b", {}).figures().has_value());
}

TEST_CASE("a row that was refused is not tried again, and one that crashed is") {
  RowRecord row = row_of("a", {});
  CHECK_FALSE(row.refused());
  for (const auto& [code, refused] : {std::pair{1, false}, {2, true}, {3, true}, {137, false}}) {
    row.runs = {failed_run(code, "why")};
    CHECK(row.refused() == refused);
  }
  row.runs.push_back(run_of(steps_json(1)));
  CHECK_FALSE(row.refused());
}

}  // namespace strata::test
