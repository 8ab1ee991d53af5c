// Tests the page: what it holds, and that no text of a run gets out of its string.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "report/page_data_of.h"
#include "report/run_files.h"
#include "strata/report/report_page.h"
#include "support/catch.h"

namespace strata::test {
namespace {

const std::string kHostile =
    "</script><script>alert(1)</script><!-- @SCRIPT@ @DATA@ \" ' \\ & \xff \xe2\x80\xa8 \x01";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

RunHistory run_of(int steps) {
  RunHistory run;
  run.name = "run";
  run.folder = "runs/run";
  for (int i = 1; i <= steps; ++i) {
    run.steps.step.push_back(i);
    run.steps.loss.push_back(10.0 / i);
    run.steps.grad_norm.push_back(1);
    run.steps.lr.push_back(1e-3);
    run.steps.tokens_per_s.push_back(100 + i);
    run.steps.targets_per_s.push_back(50 + i);
    run.steps.mfu.push_back(std::numeric_limits<double>::quiet_NaN());
    run.steps.mfu_attended.push_back(0.25);
    run.steps.tokens.push_back(1000);
    run.steps.seconds.push_back(3.6);
  }
  return run;
}

TEST_CASE("a page holds the numbers of the run") {
  RunHistory run = run_of(50);
  run.steps.loss[7] = std::numeric_limits<double>::quiet_NaN();
  run.steps.reward_margin.assign(50, 0.5);
  run.validations = {{.step = 25, .loss = 2.5}, {.step = 50, .loss = 3.5}};
  run.memory = {.device_planned = 4096};
  run.fp8 = {{.step = 20, .linears = {{.linear = "qkv", .flushed = 0.75}}},
             {.step = 40,
              .linears = {{.linear = "gate_up", .flushed = 0.25},
                          {.linear = "down", .operand = "w", .layer = 3, .flushed = 0.5}}}};
  const nlohmann::json data = page_data_of(report_page({run}, {}));
  const nlohmann::json& shown = data["runs"][0];
  CHECK(shown["fp8"]["flushed"]["x"] == std::vector<int>{20, 40});
  CHECK(shown["fp8"]["flushed"]["y"] == std::vector<double>{0.75, 0.5});
  CHECK(shown["fp8"]["step"] == 40);
  CHECK(shown["fp8"]["last"].size() == 2);
  CHECK(shown["fp8"]["last"][1]["operand"] == "w");
  CHECK(shown["fp8"]["last"][1]["layer"] == 3);
  const nlohmann::json& loss = shown["series"]["loss"];
  REQUIRE(loss["x"].size() == 50);
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(loss["x"][i] == i + 1);
    if (i == 7) {
      CHECK(loss["y"][i].is_null());
    } else {
      CHECK(std::abs(loss["y"][i].get<double>() - run.steps.loss[i]) < 1e-6 * run.steps.loss[i]);
    }
  }
  CHECK(loss["smooth"].size() == 1);
  CHECK(loss["smooth"].contains("10"));
  CHECK_FALSE(shown["series"].contains("mfu"));
  CHECK(shown["series"]["reward_margin"]["y"][0] == 0.5);
  CHECK_FALSE(shown["series"].contains("preferred"));
  CHECK(shown["validation"]["y"] == std::vector<double>{2.5, 3.5});
  CHECK(shown["totals"]["best_validation"]["step"] == 25);
  CHECK(shown["totals"]["last_validation"]["loss"] == 3.5);
  CHECK(shown["totals"]["tokens"] == 50000);
  CHECK(shown["totals"]["seconds"] == 180);
  CHECK(shown["totals"]["tokens_per_s"] == 125.5);
  CHECK(shown["totals"]["targets_per_s"] == 75.5);
  CHECK(shown["totals"]["mfu_attended"] == 0.25);
  double last = 0;
  for (std::size_t i = 50 - 32; i < 50; ++i) last += run.steps.loss[i] / 32;
  CHECK(std::abs(shown["totals"]["loss"].get<double>() - last) < 1e-6);
  CHECK(shown["axis"]["tokens"].back() == 50000);
  CHECK(std::abs(shown["axis"]["hours"].back().get<double>() - 0.05) < 1e-9);
  CHECK(shown["memory"]["device_planned"] == 4096);
  CHECK(shown["memory"]["host_peak"].is_null());
}

TEST_CASE("a run that goes on from another folder has tokens from its beginning") {
  RunHistory run = run_of(20);
  for (std::int64_t& step : run.steps.step) step += 100;
  const nlohmann::json shown = page_data_of(report_page({run}, {}))["runs"][0];
  CHECK(shown["axis"]["tokens"].front() == 101000);
  CHECK(shown["totals"]["tokens"] == 120000);
}

TEST_CASE("no text of a run becomes markup or script") {
  RunHistory run = run_of(2);
  run.name = kHostile;
  run.folder = kHostile;
  run.facts["device"] = kHostile;
  run.samples = {{.step = 1, .prompt = kHostile, .text = kHostile}};
  run.config = {{kHostile, kHostile}};
  run.saves = {{.step = 1, .failure = kHostile}};
  run.rollbacks = {{.step = 1, .what = kHostile}};
  run.notes = {kHostile};
  run.trace = TraceEvents{.names = {kHostile},
                          .phases = {kHostile},
                          .lanes = {{.name = kHostile, .spans = {{.end_us = 1}}}},
                          .events = 1};
  const std::string page = report_page({run}, {.program = kHostile, .made = kHostile});
  // The data and the page's own script, and nothing else.
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script") == 2);
  CHECK(count(page, "<!--") == 0);
  CHECK(count(page, "<title>") == 1);
  const nlohmann::json data = page_data_of(page);
  const std::string text = data["runs"][0]["samples"]["list"][0]["text"];
  CHECK_THAT(text, ContainsSubstring("</script><script>alert(1)</script><!-- @SCRIPT@ @DATA@"));
  CHECK(data["runs"][0]["name"].get<std::string>() == text);
}

TEST_CASE("no name of a run turns the page's text around") {
  const std::string hostile = "a\u202Eb\u009b";
  RunHistory run = run_of(2);
  run.name = hostile;
  run.notes = {hostile};
  run.config = {{hostile, hostile}};
  run.samples = {{.step = 1, .prompt = hostile, .text = hostile + "\n"}};
  const std::string page = report_page({run}, {});
  CHECK_THAT(page, !ContainsSubstring("\u202E") && !ContainsSubstring("\u009b"));
  const nlohmann::json data = page_data_of(page);
  const std::string shown = "a\\u202eb\\u009b";
  CHECK(data["runs"][0]["name"] == shown);
  CHECK(data["runs"][0]["notes"][0] == shown);
  CHECK(data["runs"][0]["config"][0] == nlohmann::json{shown, shown});
  CHECK(data["runs"][0]["samples"]["list"][0]["text"] == shown + "\n");
}

TEST_CASE("a page may fetch nothing, and asks for nothing") {
  const std::string page = report_page({run_of(2)}, {});
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  CHECK(count(page, "http") == 2);  // <meta http-equiv>, and the name of SVG's elements
  CHECK(count(page, "http://www.w3.org/2000/svg") == 1);
  for (const char* const fetch : {" src=", "@import", "fetch(", "XMLHttpRequest", "import("}) {
    CHECK(count(page, fetch) == 0);
  }
}

TEST_CASE("the spans of a timeline can be added up again") {
  RunHistory run = run_of(1);
  run.trace = TraceEvents{
      .names = {"a", "b"},
      .phases = {"forward"},
      .lanes = {{.name = "compute",
                 .spans = {{.begin_us = 1.04, .end_us = 2.5, .unit = 3},
                           {.begin_us = 4, .end_us = 6.26, .name = 1, .cell = 2, .events = 5}}}},
      .events = 6};
  const nlohmann::json timeline = page_data_of(report_page({run}, {}))["runs"][0]["timeline"];
  CHECK(timeline["lanes"][0]["spans"] ==
        std::vector<int>{10, 15, 0, 0, -1, 3, -1, 1, 15, 23, 1, 0, -1, -1, 2, 5});
  CHECK(timeline["events"] == 6);
}

}  // namespace
}  // namespace strata::test
