// Tests `bench` as users start it: what it measures, predicts and writes. Suites have
// suite_test.cpp.

#include <cmath>
#include <string>

#include "e2e/lines.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

TEST_CASE("a benchmark measures 8 steps unless told, and its results say where they come from") {
  const Folder folder;
  const std::string bench = "bench " + configs_folder() + "/tiny-cpu.json " +
                            "--set data.sequence_length=32 --set run.threads=1 --json - ";
  const auto check_origin = [&](const nlohmann::json& json) {
    CHECK(json["config"]["data.sequence_length"] == 32);
    CHECK(json["config"]["model.hidden_size"] == 64);
    const nlohmann::json& machine = json["provenance"];
    CHECK(machine["commit"] == json["commit"]);
    CHECK(!machine["host"].get<std::string>().empty());
    const std::string date = machine["date"];  // 2026-11-25T10:00:00Z
    CHECK((date.size() == 20 && date[10] == 'T' && date.back() == 'Z'));
    CHECK_THAT(machine["command"].get<std::string>(), ContainsSubstring(" bench "));
    CHECK(machine.contains("gpus"));
    CHECK(machine.contains("driver"));
  };
  const auto told = parse_json<nlohmann::json>(printed(folder, bench + "--set run.steps=3"));
  CHECK(told["step_s_each"].size() == 3);
  // The config has 30 steps, which are those of a training.
  const auto json = parse_json<nlohmann::json>(printed(folder, bench));
  CHECK(json["step_s_each"].size() == 8);
  CHECK(json["config"]["run.steps"] == 8);
  CHECK(json["targets_per_s"].get<double>() ==
        Approx(json["tokens_per_s"].get<double>()).epsilon(1e-9));
  check_origin(json);
  check_origin(parse_json<nlohmann::json>(
      printed(folder, bench + "--generate --prompts 1 --prompt-tokens 4 --max-tokens 4")));
  const Outcome suite =
      strata(folder, "bench --suite " + configs_folder() + "/suites/tiny.json --json -");
  CHECK(suite.code == 2);
  CHECK_THAT(suite.text, ContainsSubstring("--json -: a suite writes its results"));
}

TEST_CASE("bench prints a table and writes JSON") {
  const Folder folder;
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=3 --set "
                         "optimizer.warmup_steps=0 --set hardware.peak_tflops=1 --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["steps"] == 3);
  CHECK(json["races"] == 0);
  REQUIRE(json["step_s_each"].size() == 3);
  CHECK(json["step_s_each"][2] > 0);
  CHECK(json["updates"]["busy_s"] > 0);
  CHECK(json["updates"]["hidden"] <= 1);
  CHECK(json["first_step_ended_s"] >= json["first_step_begun_s"]);
  CHECK(json["tokens_per_step"] == 512);
  const double tokens_per_s = json["tokens_per_s"];
  CHECK(std::abs(tokens_per_s * json["step_s_mean"].get<double>() / 512.0 - 1.0) < 1e-9);
  CHECK(std::abs(json["mfu"].get<double>() / (json["tflops"].get<double>()) - 1.0) < 1e-9);
  CHECK(json["hfu"] > json["mfu"]);
  CHECK(json["peak_tflops"] == 1);
  CHECK(json["peak_origin"] == "hardware.peak_tflops");
  CHECK(json["mfu_formula"] == "flops_per_token * tokens_per_s / (peak_tflops * 1e12 * ranks)");
  CHECK(!json.contains("mfu_warning"));
  CHECK_THAT(measured.text, ContainsSubstring("with 1 TFLOP/s of hardware.peak_tflops"));
  CHECK(json["kept_cells"]["recompute"] == 8);
  CHECK(json["kept_cells"]["full"] == 0);
}

TEST_CASE("an MFU above 100 % comes with a warning that names the peak and its key") {
  const Folder folder;
  const std::string peak = " --set hardware.peak_tflops=1e-6";
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 --json " +
                         (folder / "bench.json") + peak);
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("set hardware.peak_tflops to"));
  CHECK(parse_json<nlohmann::json>(read_file(folder / "bench.json")).contains("mfu_warning"));
  const Outcome trained = strata(folder, train_tiny(folder, "run", peak));
  REQUIRE(trained.code == 0);
  const std::size_t at = trained.text.find("set hardware.peak_tflops to");
  CHECK(at != std::string::npos);
  CHECK(trained.text.find("set hardware.peak_tflops to", at + 1) == std::string::npos);  // once
  CHECK(metrics(folder / "run")[1].contains("mfu_warning"));
}

TEST_CASE("bench and plan say how many units are speculated, bench how many steps missed") {
  const Folder folder;
  const std::string config =
      configs_folder() + "/tiny-cpu.json --set optimizer.timing=speculative ";
  const Outcome measured =
      strata(folder, "bench " + config +
                         "--set run.steps=3 --set optimizer.warmup_steps=0 --set "
                         "optimizer.grad_clip=1e-6 --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("3 of 3 steps missed"));
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["missed_steps"] == 3);
  CHECK(json["speculated_units"] == 3);
  CHECK(json["races"] == 0);
  CHECK_THAT(strata(folder, "plan " + config).text,
             ContainsSubstring("3 units updated speculatively"));
  CHECK_THAT(strata(folder, "plan " + config + "--set optimizer.undo_log=1KiB").text,
             ContainsSubstring("no unit is updated speculatively"));
}

TEST_CASE("bench predicts what it measures if it is told the machine's rates", "[long]") {
  const Folder folder;
  const std::string bench = "bench " + configs_folder() +
                            "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 "
                            "--set run.dtype=bf16 --json " +
                            (folder / "bench.json");
  const Outcome unknown = strata(folder, bench);
  INFO(unknown.text);
  REQUIRE(unknown.code == 0);
  CHECK_THAT(unknown.text, ContainsSubstring("nobody has measured this device"));
  nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["prediction"].contains("unknown"));
  // Work that is over as soon as it starts has no rate: here that may be all but these.
  for (const char* rate : {"product_tflops", "attention_forward_tflops"}) {
    CHECK(json["hardware"][rate] > 0);
  }
  const std::string rates =
      " --set hardware.product_tflops=0.05 --set hardware.device_gbs=10 --set "
      "hardware.attention_forward_tflops=0.05 --set hardware.host_gbs=10 --set "
      "hardware.attention_backward_tflops=0.05";
  const Outcome told = strata(folder, bench + rates);
  INFO(told.text);
  REQUIRE(told.code == 0);
  CHECK_THAT(told.text, ContainsSubstring("; predicted "));
  CHECK_THAT(told.text, ContainsSubstring("optimizer.interleave 0 chosen: "));
  json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  const nlohmann::json& prediction = json["prediction"];
  CHECK(prediction["step_s"] > 0);
  REQUIRE(json["choices"].size() == 1);
  CHECK(json["choices"][0]["key"] == "optimizer.interleave");
  CHECK(json["choices"][0]["step_s"] == prediction["step_s"]);
  CHECK_THAT(
      strata(folder, "plan " + configs_folder() + "/tiny-cpu.json --set run.dtype=bf16" + rates)
          .text,
      ContainsSubstring("optimizer.interleave 0 chosen: "));
  CHECK(prediction["step_s_mean"] >= prediction["step_s"]);
  CHECK(prediction["lanes"].size() == json["lanes"].size());
  double products = 0;
  for (const nlohmann::json& work : json["work"]) {
    INFO(json_text(work));
    CHECK(work["predicted_s"].is_number());
    if (work["name"] == "matmul") products += work["predicted_s"].get<double>();
  }
  CHECK(products > 0);
  CHECK(products < prediction["lanes"]["compute"]["busy_s"]);
}

TEST_CASE("bench counts no FLOPs of what is kept") {
  const Folder folder;
  const Outcome measured =
      strata(folder, "bench " + configs_folder() +
                         "/tiny-cpu.json --set run.steps=1 --set optimizer.warmup_steps=0 --set "
                         "hardware.peak_tflops=1 --set schedule.activations=full --json " +
                         (folder / "bench.json"));
  INFO(measured.text);
  REQUIRE(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("8 cells: 8 full"));
  const nlohmann::json json = parse_json<nlohmann::json>(read_file(folder / "bench.json"));
  CHECK(json["recompute_flops_per_token"] == 0);
  CHECK(json["hfu"] == json["mfu"]);
  CHECK(json["kept_cells"]["full"] == 8);
}

}  // namespace strata::test
