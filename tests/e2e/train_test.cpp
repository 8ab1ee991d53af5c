// Tests `train` as users start it, by its run folder and its log: what a run writes, repeats and
// says when it ends.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"

namespace strata::test {

TEST_CASE("train writes its config, its metrics and a trace into the run folder") {
  const Folder folder;
  const Outcome done = strata(folder, train_tiny(folder, "run", "--set run.trace_step=2"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  const std::vector<nlohmann::json> lines = metrics(folder / "run");
  std::vector<std::string> events;
  for (const nlohmann::json& line : lines) events.push_back(line["event"]);
  REQUIRE(events == std::vector<std::string>{"start", "step", "step", "step", "trace", "step",
                                             "checkpoint", "end"});
  for (const std::size_t at : {1, 2, 3, 5}) {
    const nlohmann::json& line = lines[at];
    CHECK(line["step"] == (at < 4 ? at : 4));
    for (const char* key : {"loss", "grad_norm", "lr", "tokens", "step_s", "tokens_per_s",
                            "host_busy_s", "activations_in_bytes", "out_bytes"}) {
      CHECK(line[key].is_number());
    }
    CHECK(line["weights_in_bytes"] > 0);
    CHECK(line["mfu"].is_null());
  }
  CHECK(lines[4]["step"] == 2);
  CHECK(lines[4]["compute_busy_s"] > 0);
  CHECK(lines[4]["host_exposed_s"] >= 0);
  CHECK(lines[4]["updates_busy_s"] > 0);
  CHECK(lines[4]["updates_hidden"] >= 0);
  CHECK(lines[4]["updates_hidden"] <= 1);
  CHECK(lines.back()["first_step_begun_s"] >= lines.back()["startup_weights_s"]);
  CHECK(lines.back()["first_step_ended_s"] >= lines.back()["first_step_begun_s"]);
  const nlohmann::json trace = parse_json<nlohmann::json>(read_file(folder / "run/trace.json"));
  CHECK(trace["traceEvents"].size() > 100);
  CHECK_THAT(done.text, ContainsSubstring("trace of steps 2 and 3"));
}

TEST_CASE("a run in e4m3 writes what rounding loses, after the lines of the steps that count") {
  const Folder folder;
  const Outcome done =
      strata(folder, train_tiny(folder, "run",
                                "--set run.dtype=bf16 --set run.products=fp8 --set "
                                "run.fp8_metrics_every=2"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  std::int64_t last = 0;
  std::vector<std::int64_t> counted;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] == "step") last = line["step"];
    if (line["event"] != "fp8") continue;
    counted.push_back(line["step"]);
    CHECK(last >= counted.back());
    for (const char* linear : {"qkv", "attention_out", "gate_up", "down"}) {
      CHECK(line[linear].size() == 4);
      for (const char* operand : {"x", "w", "w_transposed", "dy"}) {
        const nlohmann::json& lost = line[linear][operand];
        CHECK(lost["amax"][0] > 0);
        CHECK(lost["flushed"].size() == lost["amax"].size());
        CHECK(lost["subnormal"].size() == lost["amax"].size());
      }
    }
  }
  CHECK(counted == std::vector<std::int64_t>{2, 4});
}

TEST_CASE("a run as long as so many epochs says its steps, and so does its plan") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  REQUIRE_FALSE(data.empty());
  std::ofstream(folder / "run.json")
      << R"({"run": {"backend": "cpu", "epochs": 2, "output": ")" << (folder / "run") << R"("},
 "model": {"vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "max_position_embeddings": 64},
 "data": {"sequence_length": 64, "train": ")"
      << (folder / "train.bin") << R"("},
 "schedule": {"rows": 8}})";
  const Outcome trained = strata(folder, "train " + (folder / "run.json"));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const auto steps = static_cast<std::int64_t>(losses(folder / "run").size());
  const nlohmann::json resolved = parse_json<nlohmann::json>(read_file(folder / "run/config.json"));
  CHECK(resolved["run"]["steps"] == steps);
  CHECK(resolved["run"]["epochs"].is_null());
  const std::string said = std::to_string(steps) + " steps = 2.";
  CHECK_THAT(trained.text, ContainsSubstring("tokens, " + said));
  const Outcome planned = strata(folder, "plan " + (folder / "run.json"));
  CHECK(planned.code == 0);
  CHECK_THAT(planned.text, ContainsSubstring("length: " + said));
  fs::remove(folder / "train.bin");
  const Outcome elsewhere = strata(folder, "plan " + (folder / "run.json"));
  CHECK(elsewhere.code == 0);
  CHECK_THAT(elsewhere.text,
             ContainsSubstring("length: 2 epochs, whose steps are not known here") &&
                 ContainsSubstring("train.bin"));
  const Outcome guessed = strata(folder, "train " + (folder / "run.json") + " --learning-rate 1");
  CHECK(guessed.code == 2);
  CHECK_THAT(guessed.text, ContainsSubstring("did you mean --set optimizer.lr=VALUE?"));
}

TEST_CASE("the resolved config repeats the run") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "first", "")).code == 0);
  const Outcome again = strata(
      folder, "train " + (folder / "first/config.json") + " --output " + (folder / "second"));
  INFO(again.text);
  REQUIRE(again.code == 0);
  REQUIRE(losses(folder / "first").size() == 4);
  CHECK(losses(folder / "first") == losses(folder / "second"));
}

TEST_CASE("text is tokenized, trained on and validated") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  for (const std::string mask : {"false", "true"}) {
    const Outcome trained =
        strata(folder, train_tiny(folder, mask,
                                  data +
                                      " --set run.eval_every=2 --set run.eval_batches=4 --set "
                                      "run.steps=12 --set "
                                      "optimizer.lr=0.003 --set data.document_mask=" +
                                      mask));
    INFO(trained.text);
    REQUIRE(trained.code == 0);
    std::vector<double> validations;
    for (const nlohmann::json& line : metrics(folder / mask)) {
      if (line["event"] == "eval") validations.push_back(line["val_loss"]);
    }
    REQUIRE(validations.size() == 6);
    CHECK(validations.back() < validations.front() - 0.2);
    CHECK(validations.front() < std::log(257.0) + 0.5);
  }
}

TEST_CASE("a step without targets has no loss in the log, the metrics and the checkpoint") {
  const Folder folder;
  // Four rows of documents that end at once, which a mask leaves without a target, and four others.
  std::vector<std::uint16_t> tokens(257, 3);
  for (std::size_t i = 128; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::uint16_t>(4 + i % 9);
  std::ofstream(folder / "train.bin", std::ios::binary) << bytes_of(tokens);
  const Outcome trained =
      strata(folder, train_tiny(folder, "run",
                                "--set data.synthetic=false --set data.dtype=u16 --set "
                                "data.eos_token=3 --set data.document_mask=true --set "
                                "data.shuffle=false --set run.steps=3 --set run.log_every=1 --set "
                                "checkpoint.at_end=true --set data.train=" +
                                    (folder / "train.bin")));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] == "step") steps.push_back(line);
  }
  REQUIRE(steps.size() == 3);
  for (const std::size_t without : {0, 2}) {
    CHECK(steps[without]["valid_tokens"] == 0);
    CHECK(steps[without]["loss"].is_null());
    CHECK(steps[without]["applied"] == false);
    CHECK(!steps[without].contains("nonfinite"));
  }
  CHECK(steps[1]["valid_tokens"] == 128);
  const double loss = steps[1]["loss"];
  CHECK(loss > 1);
  std::ostringstream said;
  said << ", loss " << std::fixed << std::setprecision(4) << loss << ';';
  CHECK_THAT(trained.text, ContainsSubstring(said.str()) &&
                               ContainsSubstring("         -          0  ") &&
                               !ContainsSubstring("0.0000"));
  const Outcome shown = strata(folder, "inspect " + (folder / "run") + " --json");
  INFO(shown.text);
  REQUIRE(shown.code == 0);
  const auto json = parse_json<nlohmann::json>(shown.text);
  CHECK(json.at("loss").is_null());
  CHECK(json.at("finite") == true);
}

TEST_CASE("masked steps tell targets and MFU without the attention that masks leave out") {
  const Folder folder;
  // Documents of 8 tokens in rows of 32: of 32 * 32 pairs 4 * 8 * 8 are left, a quarter.
  std::vector<std::uint16_t> tokens(1025);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(i % 8 == 7 ? 3 : 4 + i % 50);
  }
  std::ofstream(folder / "train.bin", std::ios::binary) << bytes_of(tokens);
  const Outcome trained =
      strata(folder, train_wide(folder, "run",
                                "--set data.synthetic=false --set data.dtype=u16 --set "
                                "data.eos_token=3 --set data.document_mask=true --set "
                                "hardware.peak_tflops=1 --set data.train=" +
                                    (folder / "train.bin")));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  // Elements of products and of attention over a whole row, of the model of configs/tiny-cpu.json.
  constexpr double kProducts = 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 176) + 64 * 257;
  constexpr double kAttention = 4 * 64 * 32;
  int steps = 0;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    if (line["event"] != "step") continue;
    ++steps;
    CHECK(line["valid_tokens"] == 128 - 16);
    CHECK(line["targets_per_s"].get<double>() ==
          Approx((128 - 16) / line["step_s"].get<double>()).epsilon(1e-9));
    CHECK(line["attended"] == 0.25);
    CHECK(line["mfu_attended"].get<double>() / line["mfu"].get<double>() ==
          Approx((kProducts + kAttention / 4) / (kProducts + kAttention)).epsilon(1e-9));
  }
  CHECK(steps == 4);
  CHECK_THAT(trained.text, ContainsSubstring("targets/s    MFU  attended"));
}

TEST_CASE("a trace moves no validation, whichever step it names", "[long]") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const auto events = [&](const std::string& trace_step) {
    const Outcome done = strata(
        folder,
        train_tiny(folder, trace_step,
                   data +
                       " --set checkpoint.at_end=false --set run.steps=8 --set run.eval_every=3 " +
                       "--set run.trace_step=" + trace_step));
    INFO(done.text);
    REQUIRE(done.code == 0);
    CHECK(done.text.find("race:") == std::string::npos);
    CHECK(read_file(folder / (trace_step + "/trace.json")).find("evaluate") == std::string::npos);
    std::string text;
    for (const nlohmann::json& line : metrics(folder / trace_step)) {
      if (!line.contains("step")) continue;
      text += line["event"].get<std::string>() + std::to_string(line["step"].get<int>()) + " ";
    }
    return text;
  };
  // Between steps 3 and 4 there is a validation: 2 and 3 are traced.
  CHECK(events("3") == "step1 step2 step3 trace2 eval3 step4 step5 step6 eval6 step7 step8 eval8 ");
  CHECK(events("4") == "step1 step2 step3 eval3 step4 step5 trace4 step6 eval6 step7 step8 eval8 ");
}

TEST_CASE("host memory does not grow with the passes of a step beyond the plan", "[long]") {
  const Folder folder;
  const auto bytes = [&](const std::string& name, const std::string& passes) {
    const Outcome done = strata(
        folder,
        train_tiny(folder, name,
                   "--set run.steps=2 --set run.threads=2 --set model.num_hidden_layers=24 --set "
                   "data.sequence_length=16 --set schedule.rows=1 --set schedule.sub_batches=8 "
                   "--set schedule.passes=" +
                       passes));
    INFO(done.text);
    REQUIRE(done.code == 0);
    const std::vector<nlohmann::json> lines = metrics(folder / name);
    return std::pair<double, double>{lines.front()["host_planned_bytes"],
                                     lines.back()["host_peak_bytes"]};
  };
  const auto [few_planned, few_peak] = bytes("few", "2");
  const auto [many_planned, many_peak] = bytes("many", "24");
  constexpr double kNoise = 8 << 20;  // of the allocator, and of what the libraries load
  CHECK(many_peak - few_peak <= many_planned - few_planned + kNoise);
}

TEST_CASE("the metrics of a speculative run say which steps missed") {
  const Folder folder;
  for (const bool clips : {false, true}) {
    REQUIRE(
        strata(folder, train_tiny(folder, "run",
                                  std::string("--overwrite --set optimizer.timing=speculative ") +
                                      "--set optimizer.grad_clip=" + (clips ? "1e-3" : "1e9")))
            .code == 0);
    const std::vector<nlohmann::json> lines = metrics(folder / "run");
    CHECK(lines.back()["missed_steps"] == (clips ? 4 : 0));
    CHECK(lines[1]["missed"] == clips);
  }
  REQUIRE(strata(folder, train_tiny(folder, "run", "--overwrite")).code == 0);
  CHECK(!metrics(folder / "run")[1].contains("missed"));
}

TEST_CASE("a run that is not finite any more exits with 4") {
  const Folder folder;
  for (const std::string timing : {"before_use", "on_arrival"}) {
    const Outcome failed =
        strata(folder, train_tiny(folder, timing,
                                  "--set optimizer.lr=1e38 --set run.steps=20 --set "
                                  "optimizer.grad_clip=null --set optimizer.timing=" +
                                      timing));
    INFO(failed.text);
    CHECK(failed.code == 4);
    CHECK_THAT(failed.text, ContainsSubstring("finite"));
  }
}

TEST_CASE("the log of a run ends with the error that ended it") {
  const Folder folder;
  const Outcome failed =
      strata(folder, train_tiny(folder, "run",
                                "--set optimizer.lr=1e38 --set run.steps=20 --set "
                                "optimizer.grad_clip=null"));
  REQUIRE(failed.code == 4);
  const std::string log = read_file(folder / "run/train.log");
  INFO(log);
  const std::size_t last_line = log.rfind('\n', log.size() - 2) + 1;
  CHECK_THAT(log.substr(last_line), ContainsSubstring("[error]"));
  CHECK_THAT(log.substr(last_line), ContainsSubstring("3 steps in a row"));
  CHECK(failed.text.find("in a row") == failed.text.rfind("in a row"));  // shown once
}

}  // namespace strata::test
