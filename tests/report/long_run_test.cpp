// Tests that a run of 100,000 steps gives a page that is small.

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "report/page_data_of.h"
#include "report/run_files.h"
#include "strata/report/report_page.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {
namespace {

constexpr std::int64_t kSteps = 100000;

void write_run(const ScratchFolder& folder, const std::string& name) {
  folder.write(name + "/config.json", "{}");
  std::ofstream out(folder.file(name + "/metrics.jsonl"));
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  out << json_text(start_line()) << '\n';
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    Json line = step_line(step, step == 54321 ? 77.0 : 3 + 0.1 * normal(random));
    line["mfu"] = 0.59 + 0.001 * normal(random);
    line["weights_in_bytes"] = 26953662464;
    line["activations_in_bytes"] = 0;
    line["out_bytes"] = 13476831232;
    line["state_bytes"] = 0;
    line["host_busy_s"] = 3.1 + 0.01 * normal(random);
    line["data_epochs"] = {{"train.bin", 0.25}};
    out << json_text(line) << '\n';
    if (step % 100 == 0) out << json_text(eval_line(step, 3)) << '\n';
  }
}

TEST_CASE("the page of a run of 100,000 steps is small", "[long]") {
  const ScratchFolder folder;
  write_run(folder, "run");
  RunHistory run = read_run(folder.file("run"));
  REQUIRE(run.steps.size() == kSteps);
  const std::string page = report_page({std::move(run)}, {});
  CHECK(page.size() <= 2'000'000);
  const nlohmann::json loss = page_data_of(page)["runs"][0]["series"]["loss"];
  CHECK(loss["x"].size() <= 4000);
  CHECK(loss["x"].size() > 3000);
  double most = 0;
  for (const nlohmann::json& y : loss["y"]) most = std::max(most, y.get<double>());
  CHECK(most == 77);  // the spike of one step
}

TEST_CASE("pages of many long runs stay small", "[long]") {
  const ScratchFolder folder;
  write_run(folder, "run");
  const RunHistory run = read_run(folder.file("run"));
  CHECK(report_page(std::vector<RunHistory>(8, run), {}).size() <= 5'000'000);
}

}  // namespace
}  // namespace strata::test
